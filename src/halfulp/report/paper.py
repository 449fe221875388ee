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

SAME = "same condition, same predictor"
MECHANISMS = (
    Claim("grid", "post-init in forecast and measurement", "55/72", "cells", ("claims", "post_init")),
    Claim("grid", "of these, forecast within 15 %", "52/55", "cells", ("claims", "within")),
    Claim("grid", "forecast and measured category differ", "4/72", "cells", ("claims", "differ")),
    Claim("grid", "span of measured times", "384", "×", ("claims", "span")),
    Claim("features", "half-ULP condition predicts the freeze: closed form", "yes", "", ("claims", "analytic")),
    Claim("features", "half-ULP condition predicts the freeze: trace", "yes", "", ("claims", "trace")),
    Claim("emulator", "one trace forecasts a 128-fold range of widths", SAME, "", ("claims", "within")),
    Claim("cnn", "post-init layers dated", "same condition", "", ("claims", "within")),
    Claim("cnn", "layers whose category was forecast", "same condition", "", ("claims", "categories")),
    Claim("gpt_bf16", "freeze, forecast and measured", "within 4 steps", "steps", ("claims", "steps")),
    Claim("gpt_bf16", "difference", "at most 4", "steps", ("claims", "difference")),
    Claim("gpt_bf16", "freeze as a share of the run", "just past 0.5", "", ("claims", "relative_step")),
    Claim("gpt_bf16", "largest stalled fraction", "persistent freeze", "", ("claims", "stalled")),
    Claim("gpt_bf16", "the same under stochastic rounding", "no persistent freeze", "", ("claims", "control")),
    Claim("gpt2_fp8", "dense weights freeze at initialization", "both formats, as forecast", "", ("claims", "frozen")),
    Claim("gpt2_fp8", "improvement of fp32 in validation loss", "keeps improving", "nats", ("claims", "improvement")),
)

NOT_REPORTED = "–"
WRITE_BACK = (
    *(
        Claim("decoders", f"recovery, {policy} in {name}", "most of the gap", "", ("claims", f"{name}_{policy}"))
        for name in ("e4m3", "e5m2")
        for policy in ("full_sr", "dead_zone_sr")
    ),
    Claim("study1", "cells with canonical process identity", "5 of 6", "", ("claims", "cells")),
    Claim("study1", "registered result", "inconclusive", "", ("claims", "result")),
    Claim("study1", "retrospective analysis, not registered", "negative", "", ("claims", "retrospective")),
    Claim("study2", "mean recoveries, full_sr / dead_zone_sr", "0.9766 / 0.9777", "", ("claims", "recoveries")),
    Claim("study2", "ratio, dead_zone_sr to full_sr", "1.0012", "", ("claims", "ratio")),
    Claim("study2", "values that the two policies write differently", NOT_REPORTED, "%", ("claims", "different")),
    Claim("study3", "nearest − full_sr, last checkpoint", "7.3071 nats (69.71 %)", "", ("claims", "headline")),
    Claim("study3", "checkpoints replayed bit for bit", "6", "", ("claims", "replays")),
)
