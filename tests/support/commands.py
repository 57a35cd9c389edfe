"""The command line in this process, as tests of several files call it."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from narrows.cli.app import app

RUN = CliRunner()


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = RUN.invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def last_json(result: Result) -> Any:
    return json.loads(result.stdout.strip().splitlines()[-1])
