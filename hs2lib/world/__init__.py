"""Postcards: a small world in which everybody can see what an answer is worth.

A prompt asks for two to four facts and for a tone: "Tell me about honey: the use and the energy. Be
brief." An answer is a few short sentences, each of which has one wording and one place. So every
fault can be counted by eye, the true rating follows from the counts, and all possible answers to a
prompt can be listed (`hs2lib.evaluate.frontier`).

    cards      what is asked, what can be answered, and how often writers make each fault
    grade      what is counted in an answer, and the true ratings that follow
    raters     who rates, and how raters err
    sets       groups as the paper has them: rated responses, demonstrations
    pairs      answers that differ in one known fault; benchmarks in the forms of published ones

The true ratings, from 0 to 4. Off is the number of sentences of small talk too many or too few;
beside the point are repeats, asides and facts that nobody asked for.

    correctness   4 * right / asked - .5 * wrong - .6 * hedges - 1 * garbled
    coherence     4 - 1.2 * beside the point - 2 * garbled
    helpfulness   correctness - .5 * off - .4 * beside the point - .3 * jargon
    complexity    2 + jargon
    verbosity     2 + small talk - small talk that was asked for

Goodness is .65 helpfulness + .8 correctness + .45 coherence, so 7.6 for a faultless answer. Raters
give .3 for a sentence of jargon where the true rating subtracts .3: that is the trap of this world.

Everything here is generated and follows from (seed, item). It says nothing about the paper's
numbers.
"""
