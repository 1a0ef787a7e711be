"""Postcards: a small world in which everybody can see what an answer is worth.

A prompt asks for two to four facts and for a tone: "Tell me about honey: the use and the energy. Be
brief." An answer is a few short sentences, each of which has one wording and one place. So every
fault can be counted by eye, the true rating follows from the counts, and all possible answers to a
prompt can be listed (`hs2lib.evaluate.frontier`).

    cards      what is asked, what can be answered, and how often writers make which fault
    grade      counts of an answer, and its true ratings
    raters     who rates, with which errors and likings
    sets       groups as the paper has them: rated responses, demonstrations
    pairs      two answers that differ in one known fault; benchmarks in the forms of others

Generated: it says nothing about the paper's numbers. Everything follows from (seed, item).
"""
