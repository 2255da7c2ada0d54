"""Sets, regions and relations: what a domain answers with, and the algebra between answers of any two domains.

Guarantee: every answer is a superset of the true set; `is_exact` and `is_tight` are claimed only where they are proved.
"""
