"""The public names of lmtune.rerank.text."""

from .cross_encoder import CrossEncoder as CrossEncoder
from .cross_encoder import load_language_model as load_language_model
from .training import GivenTexts as GivenTexts
from .training import TextLists as TextLists
from .training import TextOptions as TextOptions
from .training import Texts as Texts
from .training import TextTrained as TextTrained
from .training import fit as fit
