"""What users import for sentence-transformers."""

from .losses import ApproxNDCGLoss as ApproxNDCGLoss
from .losses import BinaryCrossEntropyLoss as BinaryCrossEntropyLoss
from .losses import KSongLoss as KSongLoss
from .losses import LambdaRankLoss as LambdaRankLoss
from .losses import ListLoss as ListLoss
from .losses import ListMLELoss as ListMLELoss
from .losses import ListNetLoss as ListNetLoss
from .losses import ListwiseCrossEntropyLoss as ListwiseCrossEntropyLoss
from .losses import NDCGLoss2PPLoss as NDCGLoss2PPLoss
from .losses import NeuralNDCGLoss as NeuralNDCGLoss
from .losses import RankNetLoss as RankNetLoss
from .losses import SongLoss as SongLoss
