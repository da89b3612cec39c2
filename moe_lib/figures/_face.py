"""The two faces of a control: live widgets where a kernel answers, the page's own everywhere else.

JupyterLab shows ipywidgets that recompute in Python at every move. A rendered page shows an Altair chart whose inputs
filter rows that Python computed beforehand. Both come from the same tables, readouts and sentences, so they agree for
the same settings.
"""

import base64
import html
import inspect
import itertools
import json
import re
from dataclasses import dataclass, field
from importlib import resources

import ipywidgets as widgets
import numpy as np
import vl_convert

from ._style import SCHEMA, VEGALITE, digits

HALF_OCTAVES = np.unique(np.rint(2 ** np.arange(0, 16.5, 0.5)).astype(int)).tolist()  # 1 to 65,536
UNSEEN = {"description_width": "0px"}  # a name for screen readers: the words that one sees are a label of their own
STYLE = (resources.files("moe_lib") / "data" / "controls.css").read_text(encoding="utf-8")
PART = re.compile(r"\{([^{}]+)\}")  # as moe-chart.js reads it


class Refusal(ValueError):
    """Why a setting has no answer, in words for the reader: readouts and sentences raise it, and faces show it."""


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
    drag : str
        Scale of the chart along which the reader can drag this choice, "x" or in a row of views such as "concat_1_x".
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
    drag: str = ""

    def index(self):
        return list(self.options.values()).index(self.start)

    def live_options(self):
        """Every option of the live face as (label, value): numbers in order, names as they came."""
        every = [*self.options.items(), *self.more.items()]
        return every if any(isinstance(value, str) for _, value in every) else sorted(every, key=lambda item: item[1])

    def is_idle(self, chosen):
        return any(chosen[name] in values for name, values in self.idle.items())

    def named(self, value):
        """The label of a value; a number off the list is its own."""
        labels = {of: label for label, of in self.live_options()}
        return labels.get(value, f"{value:,}" if isinstance(value, int) else str(value))


def ask(function, chosen):
    """What a function of some choices says of a setting."""
    return function(**{key: chosen[key] for key in inspect.signature(function).parameters})


class TwoFaces:
    """A control: choices, the tables behind its chart, and what it says.

    Parameters
    ----------
    choices : list of Choice
    tables : callable
        ``tables(selection)`` with selection = {choice name: list of values} returns {data set name: list of row dicts}.
    chart : altair.Chart
        From `finish`. Draws the named data sets and filters them by the choices' names.
    says : dict of str to callable or str
        ``finding``, the title, and ``sentence``, what stands below the inputs. Each is a text, or a function of choice
        names that returns one. A text may name choices for their labels, readouts and other entries in braces: "{batch}
        tokens touch {Experts touched} of {model}". A page holds each for every setting of its own choices: short parts
        of few choices keep it small.
    readouts : dict of str to callable
        Label to a function of choice names that returns text, for example ``lambda model, batch: "222 of 256"``.
    add_model : callable, optional
        ``add_model(held, file)`` takes what an uploaded file holds and its name, and returns a new option's name.
    """

    def __init__(self, choices, tables, chart, says, readouts, add_model=None):
        self.choices, self.tables, self.readouts, self.add_model = choices, tables, readouts, add_model
        self.says = {name: (lambda text=said: text) if isinstance(said, str) else said for name, said in says.items()}
        for name, said in self.says.items():  # a text has no choices
            if isinstance(says[name], str):
                said.__signature__ = inspect.Signature()
        self.spec = {**chart.to_dict(), "$schema": SCHEMA}
        self.spec.setdefault("params", [])
        self._compiled = None

    @property
    def start(self):
        """The setting at which the control stands at first."""
        return {choice.name: choice.start for choice in self.choices}

    def say(self, what, **chosen):
        """A sentence for one setting, its parts filled in.

        >>> from moe_lib import figures
        >>> print(figures.coverage().say("finding", num_experts=256, top_k=8, skew=0, batch=64))
        64 tokens touch 222 of 256 experts
        """
        try:
            return self._filled(what, chosen)
        except Refusal as why:
            return str(why)

    def _filled(self, what, chosen):
        named = {choice.name: choice.named(chosen[choice.name]) for choice in self.choices}
        said = ask((self.says | self.readouts)[what], chosen)
        return PART.sub(lambda found: named.get(found[1]) or self._filled(found[1], chosen), said)

    def static(self):
        """The Vega-Lite specification of the page's face: inputs that filter, every row already computed."""
        everything = {choice.name: list(choice.options.values()) for choice in self.choices}
        params = itertools.chain.from_iterable(_bound_params(choice) for choice in self.choices)
        described = [{"name": c.name, "label": c.label, "kind": c.kind, "labels": list(c.options), "start": c.index(),
                      "values": list(c.options.values()), "idle": {name: [*held] for name, held in c.idle.items()},
                      "drag": c.drag} for c in self.choices]
        return {**self.spec, "params": [*params, *self.spec["params"]], "datasets": self.tables(everything),
                "usermeta": {**self.spec["usermeta"], "finding": self.say("finding", **self.start),
                             "sentence": self.say("sentence", **self.start), "choices": described,
                             "says": [self._every_answer(*item) for item in self.says.items()],
                             "readouts": [self._every_answer(*item) for item in self.readouts.items()]}}

    def _every_answer(self, label, function):
        keys = list(inspect.signature(function).parameters)
        options = {choice.name: choice.options.values() for choice in self.choices}

        def nested(chosen):
            if len(chosen) == len(keys):
                try:
                    return ask(function, chosen)
                except Refusal as why:
                    return {"no": str(why)}  # what is made of this part says why too
            return [nested({**chosen, keys[len(chosen)]: value}) for value in options[keys[len(chosen)]]]

        return {"label": label, "keys": keys, "values": nested({})}

    def readout(self, **chosen):
        """{label: text} for one setting, as both faces show it.

        >>> from moe_lib import figures
        >>> chosen = {"model": "deepseek-v3", "precision": "bf16", "device": "h200", "batch": 64}
        >>> print(figures.workshop().readout(**chosen)["Read in a step"])
        1,169 GB
        """
        return {label: self.say(label, **chosen) for label in self.readouts}

    def live_spec(self, **chosen):
        """The same chart for one setting, with rows of that setting alone."""
        params = [{"name": name, "value": value} for name, value in chosen.items()]
        rows = self.tables({name: [value] for name, value in chosen.items()})
        return {**self.spec, "params": [*params, *self.spec["params"]], "datasets": rows}

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
        name = html.escape(f"{self.say('finding', **chosen)}. {spec['description']} {self.words(**chosen)}")
        return drawn.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)

    def words(self, **chosen):
        """One setting and what is read off there, in sentences.

        >>> from moe_lib import figures
        >>> print(figures.wall().words(router="deepseek-v3", batch=1).partition(" Unlit, expected")[0])
        Router: DeepSeek-V3: 8 of 256, uniform; Batch: 1. Unlit in this step: 248 of 256;
        """
        settings = {c.label: c.named(chosen[c.name]) for c in self.choices if not c.is_idle(chosen)}
        sentences = ("; ".join(f"{label}: {text}" for label, text in said.items())
                     for said in (settings, self.readout(**chosen)) if said)
        return " ".join(f"{sentence}." for sentence in sentences)

    def numbers(self, **chosen):
        """The rows behind the live figure for one setting: {data set name: pandas DataFrame}, a line for each point.

        >>> from moe_lib import figures
        >>> chosen = {"model": "deepseek-v3", "precision": "bf16", "device": "h200", "batch": 64}
        >>> print(figures.workshop().numbers(**chosen)["ridge"])
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
        heading, picture, said, tiles, message = (widgets.HTML() for _ in range(5))
        inside = widgets.HTML(layout={"display": "none", "max_height": "24em", "overflow": "auto"})
        fold = widgets.ToggleButton(description="Take it away", layout={"width": "max-content"})

        def recompute(_=None):
            chosen = {name: control.value for name, control in inputs.items()}
            title, sentence = (self.say(what, **chosen) for what in ("finding", "sentence"))
            heading.value = f'<style>{STYLE}</style><div class="moe-finding">{html.escape(title)}</div>'
            picture.value = self.svg(**chosen)
            once = "" if sentence == title else html.escape(sentence)  # a refusal is said once
            said.value = f'<p class="moe-sentence" aria-live="polite">{once}</p>'
            tiles.value = _tiles_html(self.readout(**chosen))
            for choice in self.choices:
                inputs[choice.name].disabled = choice.is_idle(chosen)
            take_away()

        def take_away(_=None):
            inside.layout.display = "block" if fold.value else "none"
            if fold.value:
                chosen = {name: control.value for name, control in inputs.items()}
                inside.value = _links_html(self.svg(**chosen)) + _numbers_html(self.numbers(**chosen))

        fold.observe(take_away, "value")
        lines = []
        sliders = [choice for choice in self.choices if choice.kind in ("batch", "slider")]  # right beneath the picture
        for choice in [*sliders, *(choice for choice in self.choices if choice not in sliders)]:
            control = inputs[choice.name]
            control.observe(recompute, "value")
            parts = [widgets.Label(choice.label, layout={"width": "auto", "min_width": "7.5em"}), control]
            if choice.kind == "batch":
                parts.insert(1, _log_slider(control))
            if choice.upload:
                parts.append(_upload_button(choice, control, self.add_model, message))
            lines.append(widgets.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center"}))
        recompute()
        about = " ".join(filter(None, (self.spec["usermeta"][part] for part in ("drawing", "source"))))
        caption = widgets.HTML(f'<p class="moe-about">{html.escape(about)}</p>')
        return widgets.VBox([heading, picture, *lines, message, said, tiles, caption, fold, inside])

    def _repr_mimebundle_(self, include=None, exclude=None, **_):
        words = f"{self.say('finding', **self.start)}. {self.words(**self.start)}"
        return {**self.live()._repr_mimebundle_(), VEGALITE: self.static(), "text/plain": words}


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


def _tiles_html(readout):
    said = {html.escape(label): html.escape(text).replace("+", "+<wbr>") for label, text in readout.items()}
    tiles = "".join(f"<div><dt>{label}</dt><dd>{text}</dd></div>" for label, text in said.items())
    return f'<dl class="moe-tiles">{tiles}</dl>' if tiles else ""


def _links_html(svg):
    """Links that save a drawing as SVG and as PNG."""
    ink = svg.replace("currentColor", "#1B242E")
    files = {"SVG": ("svg+xml", ink.encode()), "PNG": ("png", vl_convert.svg_to_png(ink, scale=2))}
    links = (f'<a download="figure.{name.lower()}" href="data:image/{kind};base64,{base64.b64encode(data).decode()}">'
             f'{name}</a>' for name, (kind, data) in files.items())
    return f"<p>The figure as {' or '.join(links)}. Its numbers:</p>"


def _numbers_html(frames, most=200):
    """Tables of at most `most` rows each, and a link that saves all of a data set as CSV."""
    parts = []
    for name, frame in frames.items():
        file = base64.b64encode(frame.to_csv(index=False).encode()).decode()
        many = f" The first {most} of {len(frame):,} rows; the file has all." if len(frame) > most else ""
        link = f'<a download="{name}.csv" href="data:text/csv;base64,{file}">CSV</a>'
        words = frame.head(most).to_html(index=False, border=0, float_format=digits, na_rep="")
        parts.append(f"<p><strong>{html.escape(name)}</strong>.{many} {link}</p>{words}")
    return "".join(parts)
