"""Claim: what two YAML readers could read differently is refused, in one line with file, line, field, value, remedy."""

from pathlib import Path
from typing import Any

import pytest

from halfulp.errors import InputError
from halfulp.registration.strict_yaml import read_yaml


def read(tmp_path: Path, content: str | bytes) -> dict[str, Any]:
    path = tmp_path / "r.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_yaml(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-3", -3),
        ("0", 0),
        ("0.5", 0.5),
        ("1.0e-3", 1e-3),
        ("true", True),
        ("null", None),
        ("word", "word"),
        ('"010"', "010"),
        ("'no'", "no"),
        ("[1, 2]", [1, 2]),
        ("kjv-text_1", "kjv-text_1"),
    ],
)
def test_unambiguous_values_are_read(tmp_path: Path, text: str, value: object) -> None:
    read_value = read(tmp_path, f"a: {text}\n")["a"]
    assert read_value == value
    assert type(read_value) is type(value)


AMBIGUOUS = """
010 0o10 0x10 1_000 1:30 190:20:30 1e-3 1e3 1.0e3 +1 .5 5. no off Yes on .inf -.inf .nan 2026-01-01 2026-01-01T10:00:00Z
"""


@pytest.mark.parametrize("text", [*AMBIGUOUS.split(), "{y: no}"])
def test_ambiguous_values_are_refused_with_line_field_and_remedy(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"x: 1\nouter:\n  a: {text}\n")
    message = str(caught.value)
    assert "\n" not in message
    assert "r.yaml: line" in message
    assert "field outer.a" in message
    assert ";" in message  # the remedy follows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: field a: duplicate key"),
        ("o:\n  k: 1\n  k: 2\n", "line 3: field o.k: duplicate key"),
        (b"a: 1\r\nb: 2\r\n", "line 1: line endings are CRLF; convert the file to LF"),
        (b"\xef\xbb\xbfa: 1\n", "byte-order mark"),
        (b"a: \xff\n", "line 1: byte 0xff is not UTF-8"),
        ("a: e\u0301\n", "line 1: text is not in Unicode normal form C"),
        ("a: &x 1\nb: *x\n", "anchors and aliases are refused"),
        ("a: !!int 1\n", "tag tag:yaml.org,2002:int is refused"),
        ("a: !!python/name:os.system\n", "is refused"),
        ("base: {a: 1}\n<<: {a: 2}\n", "field (key): value '<<': YAML 1.1 reads a merge"),
        ("1: a\n", "is not a plain name"),
        ("- 1\n", "not a mapping"),
        ("", "not a mapping"),
        ("a: [1\n", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
    ],
)
def test_other_traps_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_abuse_gets_one_line_too(tmp_path: Path) -> None:
    for content in ("a: " + "[" * 3000 + "]" * 3000 + "\n", "a: " + "9" * 5000 + "\n", "a: x\n" + "# pad\n" * 200_000):
        with pytest.raises(InputError) as caught:
            read(tmp_path, content)
        assert str(caught.value).count("\n") == 0


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.yaml: No such file"):
        read_yaml(tmp_path / "absent.yaml")
