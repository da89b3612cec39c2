"""Formulas, measurements and charts behind the chapter *Serving a Mixture of Experts*.

Import the module that you need, for example ``from moe_lib.routing import coverage``.
"""
