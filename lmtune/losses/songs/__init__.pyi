"""The public names of lmtune.losses.songs."""

from .k_song import KSong as KSong
from .pairs import ItemSample as ItemSample
from .pairs import ListSampler as ListSampler
from .pairs import RelevantPairs as RelevantPairs
from .songs import ListwiseCrossEntropy as ListwiseCrossEntropy
from .songs import Song as Song
from .songs import reinitialise_last_layer as reinitialise_last_layer
