"""The losses that users import."""

from .approximate_ndcg import approx_ndcg as approx_ndcg
from .given_lambdas import lambda_loss as lambda_loss
from .lambda_functions import load_function as load_function
from .lambda_rank import lambdarank as lambdarank
from .lambda_rank import ndcg_loss2pp as ndcg_loss2pp
from .list_mle import listmle as listmle
from .list_net import listnet as listnet
from .neural_sort import neural_ndcg as neural_ndcg
from .pointwise import binary_cross_entropy as binary_cross_entropy
from .rank_net import ranknet as ranknet
from .table import LOSSES as LOSSES
from .whole_lists import k_song as k_song
from .whole_lists import song as song
