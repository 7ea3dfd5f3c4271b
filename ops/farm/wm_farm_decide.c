/* wm_farm_decide.c - decides how many jobs a farm needs; nothing here asks or submits.

   Failures are of two kinds. Every job would fail like one that was refused (its key, its command
   line, the campaign): these count toward the farm's end wherever they happen. Any other may be its
   node's: a node is excluded after node_max of them, and one node's count no further, so that a
   node that takes and fails job after job is avoided, and the farm goes on elsewhere.  */
#include "ops/farm/wm_farm.h"

#include <string.h>

wm_farm_decision_t wm_farm_decide (const wm_farm_queue_t *queue, const wm_farm_count_t *count,
                                   const wm_farm_failures_t *failures,
                                   const wm_farm_limits_t *limits)
{
    wm_farm_decision_t it = { 0 };
    const unsigned have = count->pending + count->running;
    it.wanted = have;
    it.stop = failures->in_a_row >= limits->failures_max;
    if (it.stop || !queue->is_known || !queue->takes_work)
        return it;
    const int64_t each = limits->batches_each;
    const int64_t useful = queue->batches / each + (queue->batches % each != 0);
    it.wanted = useful < limits->max ? (unsigned) useful : limits->max;
    const bool is_soon_done =
        count->connected && queue->eta_s >= 0 && queue->eta_s <= limits->worth_s;
    if (is_soon_done && it.wanted > have)
        it.wanted = have;
    if (it.wanted < limits->min)
        it.wanted = limits->min;
    if (have < limits->min)
        it.submit_kept = limits->min - have;
    if (it.wanted > have)
        it.submit = it.wanted - have - it.submit_kept;
    else if (it.wanted < have)
        it.retire = have - it.wanted < count->pending ? have - it.wanted : count->pending;
    return it;
}

/* Names come to stand in submit files and patterns of batch systems.  */
static bool is_node_name (const char *node)
{
    return node[strspn (node,
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")] == 0;
}

/* Counts a failure of a node; NULL where nodes are not told apart, or too many have failed.  */
static unsigned *count_node (wm_farm_failures_t *self, const wm_farm_limits_t *limits,
                             const char *node, bool *is_newly_bad)
{
    size_t i = 0;
    *is_newly_bad = false;
    if (!*node || !is_node_name (node) || !limits->node_max)
        return NULL;
    while (i < self->n_node && strcmp (self->node[i].name, node) != 0)
        i++;
    if (i == WM_FARM_NODES_MAX)
        return NULL;
    if (i == self->n_node) {
        self->n_node++;
        self->node[i].n = 0;
        self->node[i].is_bad = false;
        snprintf (self->node[i].name, WM_FARM_NODE_BYTES, "%s", node);
    }
    self->node[i].n++;
    *is_newly_bad = !self->node[i].is_bad && self->node[i].n >= limits->node_max;
    self->node[i].is_bad |= *is_newly_bad;
    return &self->node[i].n;
}

bool wm_farm_failed (wm_farm_failures_t *self, const wm_farm_limits_t *limits, const char *node,
                     int code)
{
    bool is_newly_bad = false;
    const unsigned *of_node =
        wm_exit_is_final (code) ? NULL : count_node (self, limits, node, &is_newly_bad);
    if (!of_node || *of_node <= limits->node_max)
        self->in_a_row++;
    return is_newly_bad;
}

bool wm_farm_blamed (wm_farm_failures_t *self, const wm_farm_limits_t *limits, const char *node)
{
    bool is_newly_bad;
    count_node (self, limits, node, &is_newly_bad);
    return is_newly_bad;
}

void wm_farm_connected (wm_farm_failures_t *self)
{
    self->in_a_row = 0;
}
