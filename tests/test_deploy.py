"""The files in deploy/: the metrics that dashboard and alerts ask for are those of the server, and paths exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from scripted import ScriptedEngine
from serving import serving
from typer.main import get_command

from narrows.cli.app import app
from narrows.server.metrics import Metrics

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "narrows.json").read_text())
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
ASKED = {
    **{f"panel {panel['title']}": [target["expr"] for target in panel["targets"]] for panel in DASHBOARD["panels"]},
    **{f"variable {one['name']}": [one["query"]["query"]] for one in DASHBOARD["templating"]["list"]},
    **{f"alert {rule['alert']}": [rule["expr"]] for rule in ALERTS},
}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """The names of the server's metrics. One with labels has no lines before it counts, but a type."""
    with serving(ScriptedEngine()) as url:
        text = httpx.get(f"{url}/metrics").text
    found = set()
    for line in text.splitlines():
        if line.startswith("# TYPE ") and not line.split()[2].endswith("_created"):
            name, kind = line.split()[2:]
            found |= {f"{name}_bucket"} if kind == "histogram" else {name}
    return found


@pytest.mark.parametrize("place", ASKED)
def test_the_metrics_exist(exported: set[str], place: str) -> None:
    for expression in ASKED[place]:
        names = set(re.findall(r"\bnarrows_\w+", expression))
        assert names or expression.startswith("up{")
        assert names <= exported


def test_every_metric_is_shown_somewhere(exported: set[str]) -> None:
    shown = {name for place in ASKED.values() for one in place for name in re.findall(r"\bnarrows_\w+", one)}
    assert {name for name in exported if name.startswith("narrows_")} - shown == set()


@pytest.mark.parametrize("place", ASKED)
def test_the_labels_exist(place: str) -> None:
    counted = [one for one in vars(Metrics()).values() if isinstance(one, MetricWrapperBase)]
    declared = {label for one in counted for label in one._labelnames} | {"instance", "le"}
    for expression in ASKED[place]:
        asked = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
        assert asked <= declared


@pytest.mark.parametrize("place", ASKED)
def test_expressions_are_balanced(place: str) -> None:
    for expression in ASKED[place]:
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at: dict[str, Any] = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_files_that_compose_names_are_there() -> None:
    assert (DEPLOY / COMPOSE["services"]["narrows"]["build"]["context"] / "deploy" / "Dockerfile").is_file()
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_dir(), source
            else:
                assert source in COMPOSE["volumes"] or source.startswith("${"), source
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), "nothing is open to others unless somebody says so"
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scrape["static_configs"][0]["targets"] == ["narrows:8000"]
    assert set(COMPOSE["services"]) == {"narrows", "prometheus", "grafana"}


def test_the_image_runs_an_existing_command_and_copies_what_the_build_reads() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    entry = json.loads(next(line.removeprefix("ENTRYPOINT ") for line in lines if line.startswith("ENTRYPOINT")))
    command: Any = get_command(app)
    there = {option for parameter in command.commands["serve"].params for option in parameter.opts}
    assert entry[:2] == ["narrows", "serve"]
    assert {word for word in entry if word.startswith("--")} <= there
    user = next(line.split()[1] for line in lines if line.startswith("USER"))
    assert user.isdigit() and user != "0"  # noqa: PT018
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in kept:
        assert (DEPLOY.parent / name).exists(), name
