"""One family of errors that a person can act on. The command line prints them as one line and exits with 2."""


class HalfulpError(Exception):
    """A problem with its remedy, in one line: the file, the field, the value and what to do."""


class InputError(HalfulpError):
    """An input (registration, data, argument) that is refused."""


class FrozenError(HalfulpError):
    """Something that was frozen or sealed no longer matches, or would be overwritten."""


class IncompleteError(HalfulpError):
    """Something that a step needs is missing from the results folder."""


class DivergedError(HalfulpError):
    """An optimizer proposed NaN or infinity."""

    def __init__(self, tensor: str, step: int, count: int) -> None:
        super().__init__(f"{tensor}: step {step}: {count} candidates are NaN or infinite; the run has diverged")
        self.tensor = tensor
        self.step = step
        self.count = count
