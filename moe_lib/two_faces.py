"""The two faces of a control, and of a prediction: live widgets where a kernel answers, the page's own everywhere else.

JupyterLab shows ipywidgets that recompute in Python at every move. A rendered page shows an Altair chart whose inputs
filter rows that Python computed beforehand. Both come from the same tables and readouts, so they agree for the same
settings.
"""

import base64
import html
import inspect
import itertools
import json
from dataclasses import dataclass, field
from importlib import resources

import ipywidgets as widgets
import numpy as np
import vl_convert

from . import charts

HALF_OCTAVES = np.unique(np.rint(2 ** np.arange(0, 16.5, 0.5)).astype(int)).tolist()  # 1 to 65,536
PREDICTION = "application/vnd.moe.prediction+json"
UNSEEN = {"description_width": "0px"}  # a name for screen readers: the words that one sees are a label of their own
STYLE = (resources.files(__package__) / "data" / "controls.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Choice:
    """One input of a control.

    Attributes
    ----------
    name : str
        The parameter that tables, readouts and the chart know it by.
    label : str
        What the reader sees.
    options : dict of str to value
        Label to value, in order; values are numbers or strings.
    start : value
        Where the control stands at first: the figure must carry its point there.
    kind : str
        ``menu``, ``radio``, ``slider`` (over the options) or ``batch`` (a log slider; live, any whole number).
    more : dict
        Further options of the live face.
    upload : str
        Live, a reader's own file of this name may be added to the options; empty: none.
    reads : callable
        Makes of the text of that file what `add_model` takes, or raises a ValueError for the reader.
    idle : dict of str to collection
        Name of another choice to those of its values that make this one meaningless: the input is greyed out.
    """

    name: str
    label: str
    options: dict
    start: object
    kind: str = "menu"
    more: dict = field(default_factory=dict)
    upload: str = ""
    reads: object = json.loads
    idle: dict = field(default_factory=dict)

    def index(self):
        return list(self.options.values()).index(self.start)

    def live_options(self):
        """Every option of the live face as (label, value): numbers in order, names as they came."""
        every = [*self.options.items(), *self.more.items()]
        return every if any(isinstance(value, str) for _, value in every) else sorted(every, key=lambda item: item[1])

    def is_idle(self, chosen):
        return any(chosen[name] in values for name, values in self.idle.items())


class TwoFaces:
    """A control: choices, the tables behind its chart, and readouts in words.

    Parameters
    ----------
    choices : list of Choice
    tables : callable
        ``tables(selection)`` with selection = {choice name: list of values} returns {data set name: list of row dicts}.
    chart : altair.Chart
        Draws the named data sets and filters them by the choices' names.
    readouts : dict of str to callable
        Label to a function of choice names that returns text, for example ``lambda model, batch: "222 of 256"``.
    add_model : callable, optional
        ``add_model(held, file)`` takes what an uploaded file holds and its name, and returns a new option's name.
    """

    def __init__(self, choices, tables, chart, readouts, add_model=None):
        self.choices, self.tables, self.readouts, self.add_model = choices, tables, readouts, add_model
        self.spec = {**chart.to_dict(), "$schema": charts.SCHEMA}
        self.spec.setdefault("params", [])
        self._compiled = None

    def static(self):
        """The Vega-Lite specification of the page's face: inputs that filter, every row already computed."""
        everything = {choice.name: list(choice.options.values()) for choice in self.choices}
        params = itertools.chain.from_iterable(_bound_params(choice) for choice in self.choices)
        described = [{"name": c.name, "label": c.label, "kind": c.kind, "labels": list(c.options), "start": c.index(),
                      "values": list(c.options.values()), "idle": {name: [*held] for name, held in c.idle.items()}}
                     for c in self.choices]
        answers = [self._every_answer(*item) for item in self.readouts.items()]
        return {**self.spec, "params": [*params, *self.spec["params"]], "datasets": self.tables(everything),
                "usermeta": {"choices": described, "readouts": answers}}

    def _every_answer(self, label, function):
        keys = list(inspect.signature(function).parameters)
        options = {choice.name: choice.options.values() for choice in self.choices}

        def nested(chosen):
            if len(chosen) == len(keys):
                return function(*chosen)
            return [nested((*chosen, value)) for value in options[keys[len(chosen)]]]

        return {"label": label, "keys": keys, "values": nested(())}

    def readout(self, **chosen):
        """{label: text} for one setting, as both faces show it.

        >>> from moe_lib.controls import workshop
        >>> print(workshop().readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)["Read in a step"])
        1,169 GB
        """
        return {label: function(**{key: chosen[key] for key in inspect.signature(function).parameters})
                for label, function in self.readouts.items()}

    def live_spec(self, **chosen):
        """The same chart for one setting, with rows of that setting alone."""
        params = [{"name": name, "value": value} for name, value in chosen.items()]
        rows = self.tables({name: [value] for name, value in chosen.items()})
        legend = {**self.spec["config"]["legend"], "columnPadding": 28}  # a browser's font is wider than Python's
        config = {**self.spec["config"], "legend": legend}
        return {**self.spec, "config": config, "params": [*params, *self.spec["params"]], "datasets": rows}

    def svg(self, **chosen):
        """`live_spec` drawn in Python: nothing but an SVG has to reach the browser. `words` end its name.

        Vega-Lite is compiled once; a move then only exchanges parameters and rows, which saves a third of the time.
        """
        spec = self.live_spec(**chosen)
        if self._compiled is None:
            self._compiled = vl_convert.vegalite_to_vega(spec, vl_version="5.8")
        rows = spec["datasets"]
        data = [part | {"values": rows[part["name"]]} if part["name"] in rows else part
                for part in self._compiled["data"]]
        signals = [signal | {"value": chosen[signal["name"]]} if signal["name"] in chosen else signal
                   for signal in self._compiled["signals"]]
        drawn = vl_convert.vega_to_svg({**self._compiled, "data": data, "signals": signals})
        name = html.escape(f"{spec['description']} {self.words(**chosen)}")
        return drawn.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)

    def words(self, **chosen):
        """One setting and what is read off there, in sentences.

        >>> from moe_lib.controls import wall
        >>> print(wall().words(router="deepseek-v3", batch=1).partition(" Unlit, expected")[0])
        Router: DeepSeek-V3: 8 of 256, uniform; Batch: 1. Unlit in this step: 248 of 256;
        """
        named = {choice.name: {value: label for label, value in choice.live_options()} for choice in self.choices}
        settings = {c.label: named[c.name].get(chosen[c.name], chosen[c.name]) for c in self.choices
                    if not c.is_idle(chosen)}
        sentences = ("; ".join(f"{label}: {text}" for label, text in said.items())
                     for said in (settings, self.readout(**chosen)))
        return " ".join(f"{sentence}." for sentence in sentences)

    def numbers(self, **chosen):
        """The rows behind the live figure for one setting: {data set name: pandas DataFrame}, a line for each point.

        >>> from moe_lib.controls import workshop
        >>> print(workshop().numbers(model="deepseek-v3", precision="bf16", device="h200", batch=64)["ridge"])
            ridge
        0  206.04
        """
        import pandas as pd  # half a second, and only who opens the table needs it

        held = {}
        for name, rows in self.tables({key: [value] for key, value in chosen.items()}).items():
            frame = pd.DataFrame(rows)
            lists = [column for column in frame if len(frame) and isinstance(frame[column].iloc[0], list)]
            frame = frame.explode(lists, ignore_index=True) if lists else frame
            held[name] = frame.drop(columns=[column for column in frame if column == "key" or column in chosen
                                             and (frame[column] == chosen[column]).all()])
        return held

    def live(self):
        """The ipywidgets face."""
        inputs = {choice.name: _input(choice) for choice in self.choices}
        tiles, picture, message = widgets.HTML(), widgets.HTML(), widgets.HTML()
        table = widgets.HTML(layout={"display": "none", "max_height": "24em", "overflow": "auto"})
        fold = widgets.ToggleButton(description="Show the numbers", layout={"width": "max-content"})

        def recompute(_=None):
            chosen = {name: control.value for name, control in inputs.items()}
            tiles.value = _tiles_html(self.readout(**chosen))
            picture.value = self.svg(**chosen)
            for choice in self.choices:
                inputs[choice.name].disabled = choice.is_idle(chosen)
            show_numbers()

        def show_numbers(_=None):
            table.layout.display = "block" if fold.value else "none"
            if fold.value:
                table.value = _numbers_html(self.numbers(**{name: control.value for name, control in inputs.items()}))

        fold.observe(show_numbers, "value")

        rows = []
        for choice in self.choices:
            control = inputs[choice.name]
            control.observe(recompute, "value")
            parts = [widgets.Label(choice.label, layout={"width": "auto", "min_width": "7.5em"}), control]
            if choice.kind == "batch":
                parts.insert(1, _log_slider(control))
            if choice.upload:
                parts.append(_upload_button(choice, control, self.add_model, message))
            rows.append(widgets.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center"}))
        recompute()
        return widgets.VBox([*rows, message, tiles, picture, fold, table])

    def _repr_mimebundle_(self, include=None, exclude=None, **_):
        words = self.words(**{choice.name: choice.start for choice in self.choices})
        return {**self.live()._repr_mimebundle_(), charts.VEGALITE: self.static(), "text/plain": words}


def _bound_params(choice):
    """Vega-Lite parameters of the page's inputs. A slider moves over positions; the value is looked up."""
    values = list(choice.options.values())
    if choice.kind in ("menu", "radio"):
        bind = {"input": "select" if choice.kind == "menu" else "radio", "options": values,
                "labels": list(choice.options), "name": choice.label + " "}
        return [{"name": choice.name, "value": choice.start, "bind": bind}]
    step = f"{choice.name}_step"
    bind = {"input": "range", "min": 0, "max": len(values) - 1, "step": 1, "name": choice.label + " (position) "}
    return [{"name": step, "value": choice.index(), "bind": bind}, {"name": choice.name, "expr": f"{values}[{step}]"}]


def _input(choice):
    options = choice.live_options()
    named = {"description": choice.label, "style": UNSEEN}
    if choice.kind == "menu":
        return widgets.Dropdown(options=options, value=choice.start, **named, layout={"width": "22em"})
    if choice.kind == "radio":
        tooltips = [f"{choice.label}: {label}" for label, _ in options]
        return widgets.ToggleButtons(options=options, value=choice.start, tooltips=tooltips,
                                     style={"button_width": "auto"})
    if choice.kind == "slider":
        return widgets.SelectionSlider(options=options, value=choice.start, **named, layout={"width": "24em"})
    values = list(choice.options.values())
    return widgets.BoundedIntText(value=choice.start, min=min(values), max=max(values), **named,
                                  layout={"width": "7em"})


def _log_slider(number):
    """A log-scaled slider beside a number field, each following the other."""
    slider = widgets.FloatLogSlider(value=number.value, base=2, min=np.log2(number.min), max=np.log2(number.max),
                                    step=0.25, readout=False, layout={"width": "20em"})
    def follow(change):  # a browser moves the slider to its nearest step after a number was typed: keep the number
        if abs(np.log2(change.new / number.value)) > slider.step / 2 + 1e-6:
            number.value = round(change.new)

    slider.observe(follow, "value")
    number.observe(lambda change: round(slider.value) == change.new or setattr(slider, "value", change.new), "value")
    return slider


def _upload_button(choice, menu, add_model, message):
    """A button that takes a file, adds what it holds to a menu and chooses it, or says why it cannot."""
    suffix = "." + choice.upload.rpartition(".")[2]
    button = widgets.FileUpload(accept=suffix, description=f"your {choice.upload}", layout={"width": "auto"})

    def take(change):
        for file in change.new:
            try:
                name = add_model(choice.reads(bytes(file["content"]).decode("utf-8-sig")), file["name"])
            except json.JSONDecodeError as error:
                message.value = _problem(file, f"line {error.lineno} is not JSON")
                return
            except ValueError as error:  # what the library says to a reader
                message.value = _problem(file, error)
                return
            message.value = ""
            menu.options = [*menu.options, (name, name)]
            menu.value = name

    button.observe(take, "value")
    return button


def _problem(file, words):
    said = html.escape(f"{file['name']}: {words}")
    return f'<p class="moe-problem">{said}</p>'


class Prediction:
    """A question whose answer the reader commits to before it shows. Made by `predict`."""

    def __init__(self, question, answer, unit, why, source):
        text = f"{answer:,}" if isinstance(answer, (int, np.integer)) else charts.digits(float(answer))
        self.asked = {"question": question, "answer": float(answer), "unit": unit, "why": why, "source": source,
                      "text": f"{text} {unit}".strip()}

    def live(self):
        """The ipywidgets face."""
        said = {key: html.escape(str(value)) for key, value in self.asked.items()}
        guess = widgets.FloatText(description="Your prediction", style=UNSEEN, layout={"width": "9em"})
        commit = widgets.Button(description="Commit")
        answer = widgets.HTML()

        def reveal(_):
            guess.disabled = commit.disabled = True
            answer.value = (f"<p>You said {guess.value:,.15g}. {_verdict(guess.value, self.asked['answer'])} "
                            f"{said['source']}: <strong>{said['text']}</strong>. {said['why']}</p>")

        commit.on_click(reveal)
        row = widgets.HBox([widgets.Label("Your prediction"), guess, widgets.Label(self.asked["unit"]), commit])
        return widgets.VBox([widgets.HTML(f"<p>{said['question']}</p>"), row, answer])

    def _repr_mimebundle_(self, include=None, exclude=None, **_):
        return {**self.live()._repr_mimebundle_(), PREDICTION: self.asked,
                "text/plain": "{question} {source}: {text}".format(**self.asked)}


def predict(question, answer, unit="", why="", source="Computed"):
    """Ask for a number before showing the right one; on the page and in JupyterLab.

    Parameters
    ----------
    question, unit, why : str
        `why` is shown with the answer.
    answer : float
        Computed or read from data, not typed.
    source : str
        Where the answer comes from, such as "Measured by NVIDIA".

    Returns
    -------
    Prediction

    >>> predict("How many experts?", 222.44, "experts").asked["text"]
    '222 experts'
    """
    return Prediction(question, answer, unit, why, source)


def _verdict(guess, computed):
    if guess <= 0 or computed <= 0:
        return "Close." if guess == computed else ""
    times, way = max(guess / computed, computed / guess), "high" if guess > computed else "low"
    if times < 2:
        return "Close." if times <= 1.1 else f"{100 * abs(guess / computed - 1):.0f} % too {way}."
    return f"{float(f'{times:.2g}'):,.15g} times too {way}."


def _tiles_html(readout):
    said = {html.escape(label): html.escape(text).replace("+", "+<wbr>") for label, text in readout.items()}
    tiles = "".join(f"<div><dt>{label}</dt><dd>{text}</dd></div>" for label, text in said.items())
    return f'<style>{STYLE}</style><dl class="moe-tiles" aria-live="polite">{tiles}</dl>'


def _numbers_html(frames, most=200):
    """Tables of at most `most` rows each, and a link that saves all of a data set as CSV."""
    parts = []
    for name, frame in frames.items():
        file = base64.b64encode(frame.to_csv(index=False).encode()).decode()
        many = f" The first {most} of {len(frame):,} rows; the file has all." if len(frame) > most else ""
        link = f'<a download="{name}.csv" href="data:text/csv;base64,{file}">Download CSV</a>'
        words = frame.head(most).to_html(index=False, border=0, float_format=charts.digits, na_rep="")
        parts.append(f"<p><strong>{html.escape(name)}</strong>.{many} {link}</p>{words}")
    return "".join(parts)
