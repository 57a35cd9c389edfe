"""Writes tests/cases/json_schema/written/: the schemas that other libraries make of the types in this folder.

    python tests/support/written_schemas/write.py

It installs the libraries, pinned, into a temporary folder, from npm and PyPI. The types are ours; so the schemas are,
too. Write them again to follow a new release, and look at what changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
CASES = HERE.parents[1] / "cases" / "json_schema" / "written"
NPM = {
    "zod4": "npm:zod@4.1.12",
    "zod3": "npm:zod@3.25.76",
    "zod-to-json-schema": "3.24.6",
    "@sinclair/typebox": "0.34.41",
}
PYPI = ("pydantic==2.12.4", "email-validator==2.3.0", "fastmcp==2.13.0.2")


def main() -> None:
    CASES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "package.json").write_text(json.dumps({"type": "module", "dependencies": NPM}))
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PYPI], check=True)
        for script in HERE.glob("*.mjs"):  # Node looks for packages beside the script
            (folder / script.name).write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
        for name, command in {
            "zod_4": ["node", "zod_types.mjs", "4"],
            "zod_3": ["node", "zod_types.mjs", "3"],
            "typebox": ["node", "typebox_types.mjs"],
            "pydantic": [str(python), str(HERE / "python_types.py"), "pydantic"],
            "fastmcp": [str(python), str(HERE / "python_types.py"), "fastmcp"],
        }.items():
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
            schemas = json.loads(done.stdout)
            lines = ",\n".join(
                f"{json.dumps(title)}: {json.dumps(schema, ensure_ascii=False)}" for title, schema in schemas.items()
            )
            (CASES / f"{name}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
            sys.stdout.write(f"{name}: {len(schemas)} schemas\n")


if __name__ == "__main__":
    main()
