/* score.c - scores a file of float32 patches by libwiremill, and prints a line of scores for each.

   cc score.c $(pkg-config --cflags --libs wiremill) -o score; ./score model.wmm patches.f32  */
#include <stdio.h>
#include <stdlib.h>
#include <wiremill.h>

int main (int argc, char **argv)
{
    wiremill_error_t error;
    FILE *file = argc == 3 ? fopen (argv[2], "rb") : NULL;
    wiremill_t *model = file ? wiremill_open (argv[1], NULL, &error) : NULL;
    if (!model)
        return fprintf (stderr, "%s\n", file ? error.text : "usage: score MODEL PATCHES"), 1;
    const size_t n_value = wiremill_n_value (model), n_output = wiremill_n_output (model);
    float *patches = malloc (256 * n_value * sizeof (float));
    float *scores = malloc (256 * n_output * sizeof (float));
    for (size_t n; (n = fread (patches, n_value * sizeof (float), 256, file)) > 0;) {
        if (wiremill_score (model, patches, n, n_value, scores, NULL, &error))
            return fprintf (stderr, "%s\n", error.text), 1;
        for (size_t i = 0; i < n * n_output; i++)
            printf ("%.9g%c", (double) scores[i], (i + 1) % n_output ? ' ' : '\n');
    }
    free (patches), free (scores);
    wiremill_close (&model);
    return 0;
}
