"""The generator of tampered runs: every way to damage a run's folder that has a name, and what verification must say.

A case is (name, damage, verdict, file, word): the damage is done to a copy of a verified run, and verification must end
in the verdict with a message that names the file and has the word in it.
"""

import base64
import json
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from halfulp.registration import attestation
from halfulp.registration.digests import canonical_json
from halfulp.registration.receipts import RECEIPT, key_path

Damage = Callable[[Path], object]
#: One file of every kind; receipts and tables are taken one by one below.
KINDS = (
    "frozen.json",
    "run.json",
    "seal.json",
    "opened.json",
    "scores.json",
    "ranking.json",
    "forecasts.parquet",
    "references/seed1/trace.parquet",
    "references/seed2/losses.parquet",
    "references/seed3/summary.json",
    "historical/seed2/counts.parquet",
    "historical/seed3/losses.parquet",
    "historical/seed4/summary.json",
    "targets/seed11/counts.parquet",
    "targets/seed12/losses.parquet",
    "targets/seed11/summary.json",
    "matched/seed12/trace.parquet",
    "tables/paper.csv",
    "tables/gates.md",
    "tables/predictors.tex",
    "captions/curves.rst",
    "figures/curves.png",
    "figures/curves.pdf",
    "attempts/predict.json",
    "attempts/target.seed11.json",
)
RECEIPTS = (
    "freeze",
    "reference.seed1",
    "historical.seed2",
    "predict",
    "seal",
    "target.seed11",
    "open",
    "score",
    "report",
)
EARLY = "2020-01-01T00:00:00+00:00"
GRID = "preregistration/smoke/grid.yaml"
#: Edits that the holder of the run's key may sign, and the file that gives them away; None is the receipt itself.
RESIGNED = {
    "its seed": "receipts/open.json",
    "its label": None,
    "its run": None,
    "its freeze": None,
    "its registration": None,
    "its rule": None,
    "its wildcards": None,
    "an output's digest": "scores.json",
    "an input's digest": None,
    "an input left out": None,
    "an output left out": None,
    "an output outside": None,
    "an absolute output": None,
    "a time that is none": None,
    "an end before its beginning": None,
    "another job's identity": "attempts/open.json",
    "a seal after the targets": "receipts/target.seed11.json",
    "a target before the seal": None,
}
TEXT = (".json", ".csv", ".md", ".tex", ".rst")


@dataclass(frozen=True)
class Case:
    """One tampered copy."""

    name: str
    damage: Damage
    verdict: str
    file: str
    word: str = ""


def cases(other: Path) -> Iterator[Case]:
    """Return all cases; ``other`` is the folder of another run of the same study."""
    files = (*KINDS, *(f"receipts/{name}.json" for name in RECEIPTS))
    for file in files:
        yield Case(f"flipped byte in {file}", on(file, flip), "tampered", file)
        yield Case(f"truncated {file}", on(file, lambda raw: raw[: len(raw) // 2]), "tampered", file)
        yield Case(f"emptied {file}", on(file, lambda _: b""), "tampered", file)
        yield Case(f"deleted {file}", deleted(file), "incomplete", file, "missing")
        if not file.startswith("attempts/"):  # the other run is from before these were kept
            yield Case(f"another run's {file}", swapped(file, other), "tampered", file)
        if file.endswith(TEXT):
            yield Case(f"CRLF in {file}", on(file, lambda raw: raw.replace(b"\n", b"\r\n")), "tampered", file)
        if file.endswith(".json"):
            yield Case(f"re-serialised {file}", on(file, compact), "tampered", file)
            yield Case(f"nested {file}", on(file, lambda _: b"[" * 100_000), "tampered", file)
        if file.endswith(".parquet"):
            word = "contents are equal"
            yield Case(f"re-serialised {file}", reserialised(file), "tampered", file, word)
            yield Case(
                f"changed data in {file}", changed_data(file), "tampered", file, "contents differ from its receipt"
            )
            yield Case(f"a pickle for {file}", on(file, lambda _: pickle.dumps(Trap())), "tampered", file)
    yield from hostile()
    yield from extra_files()
    yield from links()
    yield from edited_receipts()
    yield from edited_records()


def on(file: str, change: Callable[[bytes], bytes]) -> Damage:
    def damage(run: Path) -> None:
        (run / file).write_bytes(change((run / file).read_bytes()))

    return damage


def flip(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def compact(raw: bytes) -> bytes:
    return json.dumps(json.loads(raw)).encode()


def deleted(file: str) -> Damage:
    return lambda run: (run / file).unlink()


def swapped(file: str, other: Path) -> Damage:
    """Put another run's file of the same kind in its place."""
    folder, name = os.path.split(file)
    part = folder.split("/")[0]
    stem = name.split(".seed")[0]
    found = sorted((other / part).rglob("*")) if part else [other / file]
    donor = next(p for p in found if p.is_file() and p.suffix == Path(name).suffix and p.name.startswith(stem[:6]))
    return on(file, lambda _: donor.read_bytes())


class Trap:
    """Unpickling it would leave a mark."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (os.environ.get("HALFULP_TRAP", "/nonexistent/trap"), "w"))


def reserialised(file: str) -> Damage:
    return lambda run: pq.write_table(pq.read_table(run / file), run / file, compression="gzip")


def changed_data(file: str) -> Damage:
    def damage(run: Path) -> None:
        table = pq.read_table(run / file)
        pq.write_table(table.slice(1), run / file, compression="zstd")

    return damage


def hostile() -> Iterator[Case]:
    """What a hostile reader of the verifier came up with."""
    for name in ("freeze", "score", "report"):
        file = f"receipts/{name}"
        yield Case(
            f"renamed receipt {name}", renamed(f"{file}.json", file), "tampered", file, "not the name of a receipt"
        )
    yield Case(
        "extra receipt by another name",
        copied("receipts/freeze.json", "receipts/freeze"),
        "tampered",
        "receipts/freeze",
    )
    more = on("receipts/report.json", lambda raw: canonical_json({**json.loads(raw), "note": "x"}))
    yield Case("an envelope that holds more", more, "tampered", "receipts/report.json", "holds more than")
    bogus = on("receipts/report.json", another_signature)
    yield Case("a signature by nobody", bogus, "tampered", "receipts/report.json", "names other keys")
    for file in ("frozen.json", "run.json", "scores.json", "attempts/score.json", "receipts/score.json"):
        for name, text in (("a number beyond all", b"1e999"), ("half a character", b'"\\ud800"')):
            change = on(file, lambda raw, text=text: raw.replace(b"{", b'{"zz": ' + text + b",", 1))  # type: ignore[misc]
            yield Case(f"{name} in {file}", change, "tampered", file)
    file = "targets/seed11/counts.parquet"
    lists, many = pa.table({"step": [[1]]}), pa.table({"step": pa.array(np.zeros(60_000_000, dtype=np.int8))})
    yield Case("a column of lists", on(file, lambda _: parquet(lists)), "tampered", file, "not a table of this project")
    yield Case("a table of very many rows", on(file, lambda _: parquet(many)), "tampered", file, "60000000 rows")
    yield Case("a sparse file of 2 GiB", sparse("tables/gates.csv"), "tampered", "tables/gates.csv", "larger than")
    yield Case("a name that is no text", lambda run: planted_raw(run, b"x\xff"), "tampered", "x")
    forged = b"x\nverdict: verified (1 of 1 runs verified)"
    yield Case("a name with a verdict in it", lambda run: planted_raw(run, forged), "tampered", "x\\nverdict")
    for name, change_job in (
        ("no job", None),
        ("a job without identity", {}),
        ("an identity of another type", {"id": []}),
    ):
        edit = edited("open", lambda s, job=change_job: s["predicate"].update(job=job), "run")  # type: ignore[misc]
        yield Case(f"receipt with {name}", edit, "tampered", "receipts/open.json", "not of its type")
    naive = edited("open", lambda s: s["predicate"].update(started="2026-01-01T00:00:00"), "run")
    yield Case("a time without a zone", naive, "tampered", "receipts/open.json", "not a time with its zone")
    yield Case(
        "scores without their receipt", scores_without_receipt, "tampered", "receipts/report.json", "scores.json"
    )
    yield Case("a freeze gone and a file more", freeze_gone, "tampered", "extra.txt", "no job wrote it")


def renamed(old: str, new: str) -> Damage:
    return lambda run: (run / old).rename(run / new)


def copied(old: str, new: str) -> Damage:
    return lambda run: (run / new).write_bytes((run / old).read_bytes())


def another_signature(raw: bytes) -> bytes:
    envelope = json.loads(raw)
    envelope["signatures"].append({"keyid": "bogus", "sig": "AAAA"})
    return canonical_json(envelope)


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def sparse(file: str) -> Damage:
    def damage(run: Path) -> None:
        with (run / file).open("wb") as out:
            out.truncate(2 << 30)

    return damage


def planted_raw(run: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(run), name), "wb"):
        pass


def scores_without_receipt(run: Path) -> None:
    """The receipt of the scores is gone; the one of the tables still says which scores it read."""
    (run / "receipts/score.json").unlink()
    record("scores.json", lambda c: c.update(verdict="pass"))(run)


def freeze_gone(run: Path) -> None:
    (run / "frozen.json").unlink()
    (run / "extra.txt").write_text("x")


def extra_files() -> Iterator[Case]:
    for file in (
        "notes.txt",
        ".hidden",
        "receipts/extra.json",
        "receipts/target.seed13.json",
        "receipts/notes.txt",
        "targets/seed11/more.parquet",
        "targets/seed13/counts.parquet",
        "tables/extra.csv",
        "figures/curves.svg",
        "attempts/extra.json",
        "cells/a/counts.parquet",
        "logs.txt",
        "deep/er/still/file",
    ):
        yield Case(f"extra file {file}", planted(file), "tampered", file)


def planted(file: str) -> Damage:
    def damage(run: Path) -> None:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_bytes(b"{}\n")

    return damage


def links() -> Iterator[Case]:
    for file in (
        "frozen.json",
        "scores.json",
        "targets/seed11/counts.parquet",
        "receipts/score.json",
        "tables/paper.md",
    ):
        yield Case(f"symbolic link for {file}", linked(file), "tampered", file, "a symbolic link")
    yield Case("symbolic link to a folder", folder_linked, "tampered", "targets/seed11", "a symbolic link")
    yield Case(
        "symbolic link as an extra file",
        lambda run: (run / "x").symlink_to("/etc/passwd"),
        "tampered",
        "x",
        "a symbolic link",
    )
    yield Case("named pipe", lambda run: os.mkfifo(run / "pipe"), "tampered", "pipe", "neither a file nor a folder")


def linked(file: str) -> Damage:
    """Same contents, elsewhere: a link is refused for being one."""

    def damage(run: Path) -> None:
        elsewhere = run.parent / "elsewhere"
        elsewhere.write_bytes((run / file).read_bytes())
        (run / file).unlink()
        (run / file).symlink_to(elsewhere)

    return damage


def folder_linked(run: Path) -> None:
    (run / "targets/seed11").rename(run.parent / "elsewhere")
    (run / "targets/seed11").symlink_to(run.parent / "elsewhere")


def statement(run: Path, name: str) -> dict[str, Any]:
    envelope = json.loads((run / f"receipts/{name}.json").read_bytes())
    content: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return content


def edited(name: str, change: Callable[[dict[str, Any]], object], key: str | None = None) -> Damage:
    """Edit a receipt's statement: the signature as it was, or made anew with the run's key or a stranger's."""

    def damage(run: Path) -> None:
        path, content = run / f"receipts/{name}.json", statement(run, name)
        change(content)
        if key is None:
            envelope = json.loads(path.read_bytes())
            envelope["payload"] = base64.b64encode(canonical_json(content)).decode()
            path.write_bytes(canonical_json(envelope))
            return
        if key == "stranger":
            attestation.make_key(run.parent / "stranger")
        signer = attestation.load_signer(key_path(run) if key == "run" else run.parent / "stranger")
        outputs = {item["name"]: item["digest"]["sha256"] for item in content["subject"]}
        attestation.write_statement(path, outputs, RECEIPT, content["predicate"], [signer])

    return damage


def edited_receipts() -> Iterator[Case]:
    changes: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
        "its seed": ("target.seed11", lambda s: s["predicate"].update(seed=12)),
        "its label": ("target.seed11", lambda s: s["predicate"].update(label="registered")),
        "its run": ("score", lambda s: s["predicate"].update(run_id="00000000-0000-0000-0000-000000000000")),
        "its freeze": ("score", lambda s: s["predicate"].update(frozen_sha256="0" * 64)),
        "its registration": ("score", lambda s: s["predicate"].update(registration_sha256="0" * 64)),
        "its rule": ("historical.seed2", lambda s: s["predicate"].update(rule="target")),
        "its wildcards": ("historical.seed2", lambda s: s["predicate"].update(wildcards={"seed": "3"})),
        "an output's digest": ("score", lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        "an input's digest": ("score", lambda s: s["predicate"]["inputs"].update({"forecasts.parquet": "0" * 64})),
        "an input left out": ("target.seed11", lambda s: s["predicate"]["inputs"].pop("seal.json")),
        "an output left out": ("predict", lambda s: s["subject"].pop()),
        "an output outside": ("predict", lambda s: s["subject"][0].update(name="../../../etc/passwd")),
        "an absolute output": ("predict", lambda s: s["subject"][0].update(name="/etc/passwd")),
        "a time that is none": ("open", lambda s: s["predicate"].update(finished="yesterday")),
        "an end before its beginning": ("open", lambda s: s["predicate"].update(finished=EARLY)),
        "another job's identity": ("open", lambda s: s["predicate"]["job"].update(id="0")),
        "a seal after the targets": ("seal", lambda s: s["predicate"].update(finished="2090-01-01T00:00:00+00:00")),
        "a target before the seal": ("target.seed12", lambda s: s["predicate"].update(started=EARLY)),
        "another kind of statement": ("open", lambda s: s.update(_type="https://in-toto.io/Statement/v0.1")),
    }  # fmt: skip
    for name, (receipt, change) in changes.items():
        file = f"receipts/{receipt}.json"
        yield Case(f"receipt edited: {name}", edited(receipt, change), "tampered", file)
        if name in RESIGNED:
            title = f"receipt edited and signed with the run's key: {name}"
            yield Case(title, edited(receipt, change, "run"), "tampered", RESIGNED[name] or file)
    for name in ("freeze", "target.seed11", "report"):
        yield Case(
            f"receipt of {name} signed by a stranger",
            edited(name, lambda s: None, "stranger"),
            "tampered",
            f"receipts/{name}.json",
            "not signed by the key of its run",
        )
        yield Case(f"receipt of {name} without signatures", unsigned(name), "tampered", f"receipts/{name}.json")
        yield Case(f"receipt of {name} as a plain one", plain(name), "tampered", f"receipts/{name}.json")
    yield Case(
        "receipts of two targets exchanged",
        exchanged("target.seed11", "target.seed12"),
        "tampered",
        "receipts/target.seed11.json",
    )
    yield Case(
        "receipts of a reference and a target exchanged",
        exchanged("reference.seed1", "target.seed12"),
        "tampered",
        "receipts/reference.seed1.json",
    )
    yield Case("no receipts at all", no_receipts, "incomplete", "receipts/freeze.json", "missing")


def unsigned(name: str) -> Damage:
    return on(f"receipts/{name}.json", lambda raw: canonical_json({**json.loads(raw), "signatures": []}))


def plain(name: str) -> Damage:
    def damage(run: Path) -> None:
        content = statement(run, name)
        outputs = {item["name"]: item["digest"]["sha256"] for item in content["subject"]}
        record = {"schema": "halfulp.receipt/1", **content["predicate"], "outputs": outputs}
        (run / f"receipts/{name}.json").write_bytes(canonical_json(record))

    return damage


def exchanged(a: str, b: str) -> Damage:
    def damage(run: Path) -> None:
        first, second = run / f"receipts/{a}.json", run / f"receipts/{b}.json"
        one, other = first.read_bytes(), second.read_bytes()
        first.write_bytes(other)
        second.write_bytes(one)

    return damage


def no_receipts(run: Path) -> None:
    for path in (run / "receipts").iterdir():
        path.unlink()


def record(file: str, change: Callable[[Any], object]) -> Damage:
    def edit(raw: bytes) -> bytes:
        content = json.loads(raw)
        change(content)
        return json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"

    return on(file, edit)


def gate_deleted(run: Path) -> None:
    """A gate and its result, gone without a trace."""
    record("frozen.json", lambda c: (c["gates"].pop(), c.update(gate_count=len(c["gates"]))))(run)
    record("scores.json", lambda c: c["gates"].pop())(run)


def invent_attempt(ledger: Any) -> None:
    ledger["attempts"].insert(0, {**ledger["attempts"][0], "id": "0"})


def edited_records() -> Iterator[Case]:
    inf, nan = float("inf"), float("nan")
    edits: dict[str, tuple[str, Callable[[Any], object]]] = {
        "a threshold relaxed after the freeze": ("frozen.json", lambda c: c["gates"][0].update(threshold=99.0)),
        "a comparator turned after the freeze": ("frozen.json", lambda c: c["gates"][0].update(comparator=">")),
        "a gate count of its own": ("frozen.json", lambda c: c.update(gate_count=3)),
        "no gates": ("frozen.json", lambda c: c.update(gates=[], gate_count=0)),
        "a registration elsewhere": ("frozen.json", lambda c: c["registration"].update(path="../../etc/passwd")),
        "another registration": ("frozen.json", lambda c: c["registration"].update(path=GRID)),
        "a source's digest": ("frozen.json", lambda c: c["sources"].update({"Snakefile": "0" * 64})),
        "a source outside": ("frozen.json", lambda c: c["sources"].update({"../../secret.py": "0" * 64})),
        "no sources": ("frozen.json", lambda c: c.update(sources={})),
        "a label it did not have": ("run.json", lambda c: c.update(label="registered")),
        "a label that is none": ("run.json", lambda c: c.update(label="certified")),
        "another identity": ("run.json", lambda c: c.update(run_id="0")),
        "another key": ("run.json", lambda c: c.update(key="-----BEGIN PUBLIC KEY-----")),
        "no key": ("run.json", lambda c: c.pop("key")),
        "a better score": ("scores.json", lambda c: c["scores"].update(macro_rmse=0.0)),
        "a NaN score": ("scores.json", lambda c: c["scores"].update(macro_rmse=nan)),
        "an infinite score": ("scores.json", lambda c: c["scores"].update(skill=inf)),
        "a NaN gate that passes": ("scores.json", lambda c: c["gates"][0].update(value=nan, outcome="pass")),
        "a gate turned to pass": ("scores.json", lambda c: [gate.update(outcome="pass") for gate in c["gates"]]),
        "a verdict turned to pass": ("scores.json", lambda c: c.update(verdict="PASS")),
        "a gate's result left out": ("scores.json", lambda c: c["gates"].pop()),
        "a seal that covers less": ("seal.json", lambda c: c["sealed"].pop("forecasts.parquet")),
        "a seal of other forecasts": ("seal.json", lambda c: c["sealed"].update({"forecasts.parquet": "0" * 64})),
        "an outcome that was not opened": ("opened.json", lambda c: c["outcomes"].clear()),
        "another host": ("attempts/score.json", lambda c: c["attempts"][-1].update(host="elsewhere")),
        "another time": ("attempts/score.json", lambda c: c["attempts"][-1].update(started=EARLY)),
        "a word more": ("attempts/score.json", lambda c: c.update(note="x")),
        "an attempt invented": ("attempts/score.json", invent_attempt),
        "an attempt more": ("attempts/target.seed11.json", lambda c: c["attempts"].append({})),
        "no attempts": ("attempts/target.seed11.json", lambda c: c["attempts"].clear()),
    }  # fmt: skip
    for name, (file, change) in edits.items():
        yield Case(f"{file}: {name}", record(file, change), "tampered", file)
    yield Case("a gate deleted with its result", gate_deleted, "tampered", "frozen.json", "gates")
    for file in ("frozen.json", "run.json", "scores.json", "receipts/score.json", "attempts/score.json", "seal.json"):
        yield Case(f"a gigantic {file}", gigantic(file), "tampered", file)
    yield Case(
        "a key given twice in frozen.json",
        on("frozen.json", lambda raw: raw.replace(b"{", b'{"schema": "x",', 1)),
        "tampered",
        "frozen.json",
    )


def gigantic(file: str) -> Damage:
    def damage(run: Path) -> None:
        with (run / file).open("wb") as out:
            out.truncate(70 << 20)

    return damage
