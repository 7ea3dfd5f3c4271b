/* wm_synth_physics.c - particles in liquid argon: where charge is left, and by what.

   Particles are stepped one at a time from a stack, so that showers need no recursion. Energies are
   kinetic, in MeV; lengths in cm; a step leaves one deposit.  */
#include "kernels/model/wm_seed.h"
#include "producer/synth/wm_synth.h"

#include "schema/base/wm_grow.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846
#define MUON_MASS 105.658
#define ELECTRON_MASS 0.511
#define ARGON_DENSITY 1.396
#define ARGON_Z_OVER_A 0.4506
#define ARGON_EXCITATION 188e-6 /* MeV */
#define RADIATION_LENGTH 14.0
#define MIP_LOSS 2.1 /* MeV a cm */
#define STEP 0.15    /* three steps a wire */
#define MEV_MIN 0.3  /* a particle below it is left where it is */
#define STACK_MAX 4096

typedef enum { MUON, ELECTRON, PHOTON } kind_t;

typedef struct {
    kind_t kind;
    wm_truth_t truth;
    double position[3], direction[3], energy, t0_us;
} particle_t;

typedef struct {
    wm_random_t *random;
    wm_deposits_t *deposits;
    double length; /* of the detector along z */
    particle_t stack[STACK_MAX];
    int depth;
} world_t;

void wm_random_seed (wm_random_t *self, uint64_t seed, uint64_t stream)
{
    uint64_t mix = seed;
    mix = wm_seed_next (&mix) ^ stream;
    for (int i = 0; i < 4; i++)
        self->state[i] = wm_seed_next (&mix);
}

static uint64_t rotate (uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

double wm_random (wm_random_t *self)
{
    uint64_t *s = self->state, result = rotate (s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate (s[3], 45);
    return (double) (result >> 11) * 0x1p-53;
}

double wm_random_normal (wm_random_t *self)
{
    double radius = sqrt (-2 * log (1 - wm_random (self)));
    return radius * cos (2 * PI * wm_random (self));
}

static void deposit_add (world_t *world, const particle_t *p, double mev, double step)
{
    wm_deposits_t *all = world->deposits;
    wm_must_grow (&all->deposit, &all->capacity, all->count + 1, sizeof *all->deposit);
    double loss = mev / step; /* Birks: dense ionisation recombines (ICARUS, 0.5 kV/cm) */
    double recombination = 0.80 / (1 + 0.0486 * loss / (0.5 * ARGON_DENSITY));
    double mip = 0.80 / (1 + 0.0486 * MIP_LOSS / (0.5 * ARGON_DENSITY));
    all->deposit[all->count++] = (wm_deposit_t){ (float) p->position[0],
                                                 (float) p->position[1],
                                                 (float) p->position[2],
                                                 (float) p->t0_us,
                                                 (float) (mev / MIP_LOSS * recombination / mip),
                                                 (uint32_t) p->truth };
}

static int inside (const world_t *world, const double at[3])
{
    return fabs (at[0]) < WM_DRIFT_CM && at[1] >= 0 && at[1] < WM_HEIGHT_CM && at[2] >= 0 &&
           at[2] < world->length;
}

/* Turns `direction` by a small angle in a random plane.  */
static void direction_turn (wm_random_t *random, double direction[3], double angle)
{
    double d[3] = { direction[0], direction[1], direction[2] };
    double side[3] = { d[1], -d[0], 0 }; /* any vector across d */
    if (fabs (d[2]) > 0.9) {
        side[0] = 0;
        side[1] = d[2];
        side[2] = -d[1];
    }
    double norm = sqrt (side[0] * side[0] + side[1] * side[1] + side[2] * side[2]);
    for (int i = 0; i < 3; i++)
        side[i] /= norm;
    double up[3] = { d[1] * side[2] - d[2] * side[1], d[2] * side[0] - d[0] * side[2],
                     d[0] * side[1] - d[1] * side[0] };
    double phi = 2 * PI * wm_random (random);
    for (int i = 0; i < 3; i++)
        direction[i] = cos (angle) * d[i] + sin (angle) * (cos (phi) * side[i] + sin (phi) * up[i]);
}

static void push (world_t *world, const particle_t *from, kind_t kind, wm_truth_t truth,
                  double energy, double angle)
{
    if (energy < MEV_MIN || world->depth == STACK_MAX)
        return;
    particle_t *p = &world->stack[world->depth++];
    *p = *from;
    p->kind = kind;
    p->truth = truth;
    p->energy = energy;
    direction_turn (world->random, p->direction, angle);
}

/* Mean loss a cm of a particle of this mass (Bethe).  */
static double bethe (double mass, double energy)
{
    double gamma = 1 + energy / mass, beta2 = 1 - 1 / (gamma * gamma);
    double bracket = log (2 * ELECTRON_MASS * beta2 * gamma * gamma / ARGON_EXCITATION) - beta2;
    double loss = 0.307 * ARGON_Z_OVER_A * ARGON_DENSITY / beta2 * (bracket > 1 ? bracket : 1);
    return loss < 30 ? loss : 30; /* the last millimetre */
}

/* One ionising step: loss with a Landau-like (Moyal) fluctuation, a deposit, multiple scattering.
   Returns the energy lost.  */
static double step_ionise (world_t *world, particle_t *p, double mass, double step)
{
    wm_random_t *random = world->random;
    double gamma = 1 + p->energy / mass, beta2 = 1 - 1 / (gamma * gamma);
    double width = 0.1535 * ARGON_Z_OVER_A * ARGON_DENSITY * step / beta2;
    double normal = wm_random_normal (random);
    double moyal = -log (normal * normal + 1e-12) - 1.27; /* mean 0 */
    double loss = bethe (mass, p->energy) * step + (moyal < 15 ? moyal : 15) * width;
    if (loss < 0.1 * step)
        loss = 0.1 * step;
    if (loss > p->energy)
        loss = p->energy;
    if (inside (world, p->position))
        deposit_add (world, p, loss, step);
    double momentum = sqrt (p->energy * (p->energy + 2 * mass));
    double highland = 13.6 / (sqrt (beta2) * momentum) * sqrt (step / RADIATION_LENGTH);
    double angle = highland * sqrt (2.0) * fabs (wm_random_normal (random));
    direction_turn (random, p->direction, angle < 1 ? angle : 1);
    for (int i = 0; i < 3; i++)
        p->position[i] += step * p->direction[i];
    p->energy -= loss;
    return loss;
}

/* Knock-on electrons above 1 MeV: dN/dx ~ 1/T^2.  */
static void delta_ray (world_t *world, particle_t *p, double step)
{
    double gamma = 1 + p->energy / MUON_MASS, beta2 = 1 - 1 / (gamma * gamma);
    double most =
        2 * ELECTRON_MASS * beta2 * gamma * gamma / (1 + 2 * gamma * ELECTRON_MASS / MUON_MASS);
    double least = 1.0;
    if (most <= least)
        return;
    double mean = 0.1535 * ARGON_Z_OVER_A * ARGON_DENSITY * step / beta2 * (1 / least - 1 / most);
    if (wm_random (world->random) > mean)
        return;
    double u = wm_random (world->random);
    double energy = 1 / (1 / least - u * (1 / least - 1 / most));
    double cosine =
        sqrt (energy * (most + 2 * ELECTRON_MASS) / (most * (energy + 2 * ELECTRON_MASS)));
    push (world, p, ELECTRON, WM_EM, energy, acos (cosine < 1 ? cosine : 1));
    p->energy = p->energy > energy ? p->energy - energy : 0;
}

/* A decaying muon's electron: density 2 x^2 (3 - 2 x), x = E / 52.8 MeV, isotropic.  */
static void michel (world_t *world, const particle_t *p)
{
    double x;
    do
        x = wm_random (world->random);
    while (wm_random (world->random) > x * x * (3 - 2 * x));
    push (world, p, ELECTRON, WM_MICHEL, 52.8 * x, acos (2 * wm_random (world->random) - 1));
}

static void muon (world_t *world, particle_t p)
{
    double margin = 20; /* cosmics start above the detector and may leave it anywhere */
    while (p.energy > MEV_MIN) {
        delta_ray (world, &p, STEP);
        step_ionise (world, &p, MUON_MASS, STEP);
        if (fabs (p.position[0]) > WM_DRIFT_CM + margin || p.position[1] < 0 ||
            p.position[2] < -margin || p.position[2] > world->length + margin)
            return;
    }
    if (inside (world, p.position) && wm_random (world->random) < 0.66) /* mu-: some are captured */
        michel (world, &p);
}

/* Electrons radiate photons with dk/k above 1 MeV, else they ionise.  */
static void electron (world_t *world, particle_t p)
{
    while (p.energy > MEV_MIN && inside (world, p.position)) {
        double most = p.energy;
        double rate = STEP / RADIATION_LENGTH * 4 / 3 * log (most > 1 ? most : 1);
        if (p.energy > 2 && wm_random (world->random) < rate) {
            double k = pow (most, wm_random (world->random)); /* 1 MeV .. E, flat in log k */
            push (world, &p, PHOTON, p.truth, k, ELECTRON_MASS / (p.energy + ELECTRON_MASS));
            p.energy -= k;
        }
        if (p.energy > MEV_MIN)
            step_ionise (world, &p, ELECTRON_MASS, STEP);
    }
}

/* Photons fly to their conversion: pairs above 10 MeV, a Compton electron below.  */
static void photon (world_t *world, particle_t p)
{
    double mean = p.energy > 10 ? RADIATION_LENGTH * 9 / 7 : RADIATION_LENGTH * 1.4;
    double flight = -mean * log (1 - wm_random (world->random));
    for (int i = 0; i < 3; i++)
        p.position[i] += flight * p.direction[i];
    if (!inside (world, p.position))
        return;
    double share = wm_random (world->random), angle = ELECTRON_MASS / (p.energy + ELECTRON_MASS);
    if (p.energy > 10) {
        push (world, &p, ELECTRON, p.truth, share * p.energy, angle);
        push (world, &p, ELECTRON, p.truth, (1 - share) * p.energy, angle);
    } else {
        push (world, &p, ELECTRON, p.truth, share * p.energy, 0.5);
        push (world, &p, PHOTON, p.truth, (1 - share) * p.energy, 1.0);
    }
}

/* A cosmic muon through the top (cos^2 of the zenith), at any time of the readout.  */
static particle_t cosmic (world_t *world)
{
    wm_random_t *random = world->random;
    double cosine = cbrt (wm_random (random)), sine = sqrt (1 - cosine * cosine);
    double phi = 2 * PI * wm_random (random);
    double drift_us = WM_DRIFT_CM / WM_DRIFT_CM_US;
    double slant = WM_HEIGHT_CM * (cosine > 0.2 ? sine / cosine : 3) / 2;
    particle_t p = { .kind = MUON, .truth = WM_TRACK };
    p.direction[0] = sine * cos (phi);
    p.direction[1] = -cosine;
    p.direction[2] = sine * sin (phi);
    /* aim at the middle height, so that inclined tracks cross too */
    p.position[0] =
        (2 * wm_random (random) - 1) * WM_DRIFT_CM - slant * p.direction[0] / (sine + 1e-9);
    p.position[1] = WM_HEIGHT_CM + 10;
    p.position[2] = wm_random (random) * world->length - slant * p.direction[2] / (sine + 1e-9);
    p.energy = 400 * pow (1 - wm_random (random), -0.6); /* spectrum ~ E^-2.7, above 400 MeV */
    if (p.energy > 1e5)
        p.energy = 1e5;
    p.t0_us = -drift_us + wm_random (random) * (drift_us + WM_TICKS * WM_TICK_US);
    return p;
}

/* A shower from a photon or electron of 50 MeV to 3 GeV that starts anywhere inside.  */
static particle_t shower (world_t *world)
{
    wm_random_t *random = world->random;
    particle_t p = cosmic (world);
    p.kind = wm_random (random) < 0.5 ? PHOTON : ELECTRON;
    p.truth = WM_EM;
    p.position[0] = (2 * wm_random (random) - 1) * WM_DRIFT_CM;
    p.position[1] = (0.2 + 0.8 * wm_random (random)) * WM_HEIGHT_CM;
    p.position[2] = wm_random (random) * world->length;
    p.energy = 50 * pow (60, wm_random (random));
    return p;
}

double wm_synth_primaries (double hits, int tpcs)
{
    static const double hits_a_primary[WM_TPCS + 1] = { 1, 90, 190, 200, 255, 260, 295 };
    const double count = hits / hits_a_primary[tpcs];
    return count > 1 ? count : 1;
}

void wm_synth_physics (wm_random_t *random, double primaries, int tpcs, wm_deposits_t *deposits)
{
    world_t *world = calloc (1, sizeof *world);
    assert (world);
    world->random = random;
    world->deposits = deposits;
    world->length = WM_TPC_LENGTH_CM * ((tpcs + 1) / 2);
    double count = primaries + sqrt (primaries) * wm_random_normal (random);
    for (int i = 0; i < (count < 1 ? 1 : (int) count); i++) {
        world->stack[world->depth++] = wm_random (random) < 0.8 ? cosmic (world) : shower (world);
        while (world->depth) {
            particle_t p = world->stack[--world->depth];
            if (p.kind == MUON)
                muon (world, p);
            else if (p.kind == ELECTRON)
                electron (world, p);
            else
                photon (world, p);
        }
    }
    free (world);
}
