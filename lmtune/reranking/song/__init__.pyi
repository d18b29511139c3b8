"""The names of lmtune.reranking.song, and where they are."""

from .estimators import PreviousIterate as PreviousIterate
from .k_song import KSong as KSong
from .pairs import ItemSample as ItemSample
from .pairs import ListSampler as ListSampler
from .pairs import RelevantPairs as RelevantPairs
from .songs import Song as Song
from .warmup import ListwiseCrossEntropy as ListwiseCrossEntropy
from .warmup import reinitialise_last_layer as reinitialise_last_layer
