"""Options that several commands share."""

from typing import Annotated

import typer

Seeds = Annotated[int, typer.Option(min=1, help="how many seeds, from run.seed on")]
Jobs = Annotated[int, typer.Option(min=1, help="runs at once; the numbers are the same")]
Targets = Annotated[
    list[float] | None,
    typer.Option(help="accuracy whose cost the report lists, such as 0.8; may be repeated"),
]
WriteReport = Annotated[bool, typer.Option(help="write the report at the end")]

PORT = 8642
"""Of the live page, where nothing else is asked for."""

Dashboard = Annotated[
    bool, typer.Option("--dashboard", help="serve a live page of it on this machine while it goes on")
]
DashboardPort = Annotated[int, typer.Option("--dashboard-port", help="port of the live page")]
