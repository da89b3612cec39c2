"""A question whose answer the reader commits to before it shows, live in JupyterLab and as a form on a page."""

import html

import ipywidgets as widgets
import numpy as np

from ._face import UNSEEN
from ._style import digits

PREDICTION = "application/vnd.moe.prediction+json"


class Prediction:
    """A question whose answer the reader commits to before it shows. Made by `predict`."""

    def __init__(self, question, answer, unit, why, source):
        text = f"{answer:,}" if isinstance(answer, (int, np.integer)) else digits(float(answer))
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
