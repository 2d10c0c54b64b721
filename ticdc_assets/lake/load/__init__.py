"""Load an export into current tables: each begins a new incarnation, as of the export's TSO.

The order of one table:

1. read its schema and the head of its first data file: an export that cannot be loaded is known
   before anything is written (`load_export`);
2. read its data files in Spark's workers, as texts, in parts that are read in parallel (`parts`);
3. type the texts like those of events, and write the rows to the Delta table of the new incarnation
   (`load_table`);
4. write the rows that are invalid to the quarantine;
5. name the load in `loads`: from then on it counts.

A killed load wrote a Delta table that nothing names, and the next one writes it again.
"""
