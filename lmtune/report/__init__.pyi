"""What users import from lmtune.report, and where it is."""

from .comparison_tables import comparison_table as comparison_table
from .loss_tables import loss_table as loss_table
from .page import write_report as write_report
from .run_tables import run_table as run_table
from .run_tables import trec_eval_text as trec_eval_text
from .table import Cell as Cell
from .table import Column as Column
from .table import Table as Table
from .table import render as render
from .tuning_results import StoredResults as StoredResults
from .tuning_results import read_results as read_results
from .tuning_results import write_results as write_results
from .tuning_tables import mean_table as mean_table
from .tuning_tables import parameter_table as parameter_table
from .tuning_tables import tuning_table as tuning_table
