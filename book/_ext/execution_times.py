"""Sphinx extension: what the execution of each notebook took, written to `executed.json` beside the site.

Seconds by the clock depend on what else a machine does. Seconds of the processor, those of the kernel and of all that
it started, hardly do: they are what a test holds against the bar of a minute.
"""

import json
import os
from pathlib import Path

from myst_nb.sphinx_ import NbMetadataCollector


def of_children():
    """Seconds that processors gave to the processes that this one started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def start(app, docname, source):
    """A document will be read, and executed where it is a notebook."""
    app.env.temp_data["of_children"] = of_children()


def stop(app, doctree):
    """A document was read: note what its kernel took."""
    run = NbMetadataCollector.get_exec_data(app.env, app.env.docname)
    if run:
        used = of_children() - app.env.temp_data["of_children"]
        run["processor"] = used or run["runtime"]  # Windows does not say


def write(app, exception):
    """Write what each notebook took."""
    names = sorted(app.env.found_docs) if app.env else ()
    runs = {name: run for name in names if (run := NbMetadataCollector.get_exec_data(app.env, name))}
    took = {name: {"seconds": run["runtime"], "processor_seconds": run.get("processor")} for name, run in runs.items()}
    Path(app.outdir).with_name("executed.json").write_text(json.dumps(took, indent=1), encoding="utf-8")


def setup(app):
    """Register the hooks."""
    app.connect("source-read", start)
    app.connect("doctree-read", stop)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
