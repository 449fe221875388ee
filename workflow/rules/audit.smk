# What the audit's rules share.
RUN = f"{BASE}/{AUDIT}"
SEEDS = registrations[AUDIT].seeds
TIES = ties(AUDIT)


def runs(part, seeds, *names):
    """Return files of training runs: RUN/part/seedN/name."""
    return fixed(f"{RUN}/{part}/seed{seed}/{name}" for seed in seeds for name in names)


def receipts(rule, seeds=None):
    """Return the receipts of a rule, one a seed if it has seeds."""
    return fixed(
        f"{RUN}/receipts/{rule}{'' if seed is None else f'.seed{seed}'}.json"
        for seed in seeds or [None]
    )


def captioned(path, name, category):
    """Mark a file for the HTML report, with the caption that the report job filled in."""
    return report(
        path,
        caption=str(Path(RUN, "captions", f"{name}.rst").resolve()),
        category=category,
    )
