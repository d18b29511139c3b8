"""What users import from lmtune.reranking.text, and where it is."""

from .cross_encoder import CrossEncoder as CrossEncoder
from .lists import GivenTexts as GivenTexts
from .lists import TextLists as TextLists
from .lists import Texts as Texts
from .models import load_language_model as load_language_model
from .options import TextOptions as TextOptions
from .training import TextTrained as TextTrained
from .training import fit as fit
