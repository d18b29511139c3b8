"""The papers' tables: their protocols as data, run as experiments and printed in their layout."""
