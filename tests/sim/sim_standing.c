/* sim_standing.c - records that stand: what the journal has of them, what was promised by them, and
   that a broker which starts knows it.

   Each is durable before the next record is appended. So the journal keeps the first n of them that
   were appended, and n is at least that of the last one that was acknowledged.  */
#include "tests/sim/sim.h"

#include <string.h>
#include <xxhash.h>

void standing_begin (void)
{
    sim.standing = (standing_t){ .promised_pause = sim.standing.promised_pause,
                                 .promises_sample = sim.standing.promises_sample };
}

/* The number behind the last blank or "-" of a name; 31: none.  */
static uint32_t number_of (const char *name, size_t bytes)
{
    return bytes && name[bytes - 1] >= '0' && name[bytes - 1] <= '9'
               ? (uint32_t) name[bytes - 1] - '0'
               : 31;
}

void standing_note (const wm_record_t *record, const uint8_t *body, size_t bytes)
{
    const uint32_t bit =
        1u << number_of (record->name,
                         record->name ? strnlen (record->name, record->name_bytes) : 0);
    if (record->type == WM_RECORD_PAUSE) {
        sim.standing.n_pause++;
        sim.standing.paused = record->code;
    } else if (record->type == WM_RECORD_ARITHMETIC) {
        if (sim.standing.classes & bit)
            fail ("a class has two signatures");
        sim.standing.classes |= bit;
    } else if (record->type == WM_RECORD_DISTRUST) {
        sim.standing.distrusted |= bit;
        for (uint32_t id = 1; id <= INPUTS && id < 8 * bytes; id++)
            sim.standing.suspects |= (uint32_t) (body[id / 8] >> id % 8 & 1) << id;
    } else if (record->type == WM_RECORD_SAMPLE) {
        sim.standing.has_sample = true;
        sim.standing.sample_sum = XXH3_64bits (body, bytes);
    } else if (record->type == WM_RECORD_TOLD)
        sim.standing.told = record->n_hit;
    else if (record->type == WM_RECORD_RESULT && sim.kind != CLIENTS &&
             !(sim.standing.classes >> number_of (record->text, record->text_bytes) & 1))
        fail ("a RESULT of engine %u, whose class has no signature in the journal",
              number_of (record->text, record->text_bytes));
}

void standing_begins_again (uint32_t input)
{
    sim.standing.suspects &= ~(1u << input);
}

void standing_end (void)
{
    if (sim.standing.n_pause < sim.standing.promised_pause)
        fail ("%u pauses and resumes were acknowledged, and the journal has %u",
              sim.standing.promised_pause, sim.standing.n_pause);
    if (sim.standing.promises_sample && !sim.standing.has_sample)
        fail ("SAMPLE was acknowledged and is lost");
}

static void sample_is_there (const wm_core_t *core)
{
    wm_record_t record;
    wm_error_t error;
    if (wm_journal_read (broker_campaign ()->journal, &core->arithmetic.sample_place, &record,
                         &error) ||
        record.type != WM_RECORD_SAMPLE ||
        XXH3_64bits (record.payload, record.payload_bytes) != sim.standing.sample_sum)
        fail ("the sample is not in the journal where the broker looks for it");
}

static void load_told (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    (void) place;
    if (record->type == WM_RECORD_TOLD)
        *(uint64_t *) argument = record->n_hit;
}

void standing_restored (const wm_core_t *core)
{
    uint32_t classes = 0, distrusted = 0, suspects = 0;
    uint64_t told = 0;
    wm_error_t error;
    const wm_ledger_load_t to = { .standing = load_told };
    if (core->paused != sim.standing.paused)
        fail ("the journal's last PAUSE has code %d, and the broker is %spaused",
              sim.standing.paused, core->paused ? "" : "not ");
    for (uint32_t i = 0; i < core->arithmetic.n; i++)
        classes |=
            1u << number_of (core->arithmetic.at[i].class, strlen (core->arithmetic.at[i].class));
    for (const machine_t *machine = core->machines.first; machine; machine = machine->next)
        if (machine->distrusted)
            distrusted |= 1u << number_of (machine->host, strlen (machine->host));
    for (uint32_t id = 1; id <= INPUTS; id++)
        suspects |= (uint32_t) wm_input_set_has (&core->distrust.to_redo, id) << id;
    if (classes != sim.standing.classes)
        fail ("the journal has classes %x, the broker %x", sim.standing.classes, classes);
    if (distrusted != sim.standing.distrusted)
        fail ("the journal distrusts %x, the broker %x", sim.standing.distrusted, distrusted);
    if (suspects != sim.standing.suspects)
        fail ("inputs to begin again are %x, the broker has %x", sim.standing.suspects, suspects);
    if (core->arithmetic.has_sample != sim.standing.has_sample)
        fail ("the journal has %s sample, the broker %s", sim.standing.has_sample ? "a" : "no",
              core->arithmetic.has_sample ? "one" : "none");
    if (core->arithmetic.has_sample)
        sample_is_there (core);
    if (!wm_ledger_load (broker_campaign ()->ledger, NULL, &to, &told, NULL, &error) &&
        told != sim.standing.told)
        fail ("the journal's last TOLD is %llu, the ledger's %llu",
              (unsigned long long) sim.standing.told, (unsigned long long) told);
}

wm_record_t standing_tell (void)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_TOLD);
    record.n_hit = sim.standing.told + 1;
    standing_note (&record, NULL, 0);
    return record;
}

void standing_ordered (operator_t *operator, bool pauses)
{
    operator->pauses = pauses;
    operator->n_pause = sim.standing.n_pause;
}

void standing_acked (const operator_t *operator)
{
    if (sim.standing.promised_pause < operator->n_pause)
        sim.standing.promised_pause = operator->n_pause;
    sim.paused_promised = operator->pauses && operator->n_pause == sim.standing.n_pause;
}
