"""The table of recipes: functions that append one or a few calls to a graph."""

RECIPES = {}
"""Theme -> list of (weight, function of a ``Builder``)."""


def recipe(theme, weight=1.0):
    def register(function):
        RECIPES.setdefault(theme, []).append((weight, function))
        return function

    return register
