"""The plan: what each table of the lake has to go through, from one resolved ts to the next.

Rules of this room: pure; no row is read here.  What is known of the rows that are due is a summary
(`seen.Seen`); what has to be done with them and with the rows that are there is data (`steps`).
The order of things is the reference model's.
"""
