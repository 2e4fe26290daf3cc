"""Small models as people write them: those of ``transformers``, and recommenders by hand.

``build`` gives a model with random weights that depend on its name alone, and inputs of two sizes.
"""

from tests.zoo import language, recommenders
from tests.zoo.sample import Sample, build

LANGUAGE = tuple(language.MODELS)
RECOMMENDERS = tuple(recommenders.MODELS)
NAMES = (*LANGUAGE, *RECOMMENDERS)

__all__ = ["LANGUAGE", "NAMES", "RECOMMENDERS", "Sample", "build"]
