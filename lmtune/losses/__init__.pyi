"""The public losses."""

from .derived import lambda_loss as lambda_loss
from .derived import stochastic as stochastic
from .lambda_functions import load_function as load_function
from .listwise import adr_mse as adr_mse
from .listwise import approx_ndcg as approx_ndcg
from .listwise import k_song as k_song
from .listwise import listmle as listmle
from .listwise import listnet as listnet
from .listwise import neural_ndcg as neural_ndcg
from .listwise import pirank as pirank
from .listwise import sl_at_k as sl_at_k
from .listwise import song as song
from .pairwise import lambdarank as lambdarank
from .pairwise import ndcg_loss2pp as ndcg_loss2pp
from .pairwise import ranknet as ranknet
from .pointwise import binary_cross_entropy as binary_cross_entropy
from .pointwise import margin_mse as margin_mse
from .table import LOSSES as LOSSES
