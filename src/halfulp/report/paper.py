"""The figures of arXiv 2607.09800, as facts to stand beside what this project measures. Nothing is tuned to them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One quantity that the paper reports for a system."""

    system: str
    quantity: str
    #: The paper's figure as it is to be printed.
    paper: str
    unit: str
    #: Path of this project's figure in the study's scores, outermost key first.
    key: tuple[str, ...]


AUDIT = (
    Claim("audit", "macro RMSE of the declared forecast", "0.00858", "erased fraction", ("scores", "macro_rmse")),
    Claim("audit", "accuracy gate", "pass", "", ("gate", "accuracy")),
    Claim("audit", "skill gate", "pass", "", ("gate", "skill")),
    Claim("audit", "directional-specificity gate", "fail", "", ("gate", "directional_specificity")),
    Claim("blind", "RMSE of the template", "0.00360", "erased fraction", ("predictor", "template")),
    Claim("blind", "RMSE of the source", "0.00438", "erased fraction", ("predictor", "source")),
    Claim("blind", "common time in the outcomes' variation", "99.65", "%", ("share", "time")),
    Claim("blind", "RMSE of the matched correction", "0.00283", "erased fraction", ("predictor", "matched_correction")),
)
