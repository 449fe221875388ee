"""Claim: the auditor's page shows what its commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

PAGE = (ROOT / "docs/audit.md").read_text("utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_command_of_the_page_is_run_here() -> None:
    assert PAGE.count("```bash") == len(BLOCKS) > 8


@pytest.mark.parametrize(("commands", "shown"), BLOCKS, ids=lambda text: text.split("\n")[0][:60])
def test_a_command_prints_what_the_page_shows(commands: str, shown: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "WORK": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-uc", commands], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    parts = [re.escape(part) for part in shown.split("...\n")]
    assert re.fullmatch(r"(?:.*\n)*?".join(parts), done.stdout), done.stdout + done.stderr
