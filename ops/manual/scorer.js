// scorer.js - the search's own scores, but of pages that match alike those for tasks come before tables.
var Scorer = {
    score: ([page, , , , score]) => score + (/^howto/.test(page) ? 3 : /^(start|explain)/.test(page) ? 2 : /changelog/.test(page) ? -3 : 0),
    objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
    title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
