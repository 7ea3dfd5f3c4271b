/* client.c - has a broker's workers score a file of float32 patches, and prints a line for each.

   cc client.c $(pkg-config --cflags --libs wiremill) -o client
   ./client tcp://head:5555 patches.f32  */
#include <stdio.h>
#include <stdlib.h>
#include <wiremill.h>

int main (int argc, char **argv)
{
    wiremill_error_t error;
    FILE *file = argc == 3 ? fopen (argv[2], "rb") : NULL;
    wiremill_client_t *client = file ? wiremill_connect (argv[1], NULL, &error) : NULL;
    if (!client)
        return fprintf (stderr, "%s\n", file ? error.text : "usage: client BROKER PATCHES"), 1;
    const size_t n_value = wiremill_client_n_value (client);
    const size_t n_output = wiremill_client_n_output (client);
    float *patches = malloc (4096 * n_value * sizeof (float));
    float *scores = malloc (4096 * n_output * sizeof (float));
    for (size_t n; (n = fread (patches, n_value * sizeof (float), 4096, file)) > 0;) {
        if (wiremill_client_score (client, patches, n, n_value, scores, NULL, &error))
            return fprintf (stderr, "%s\n", error.text), 1;
        for (size_t i = 0; i < n * n_output; i++)
            printf ("%.9g%c", (double) scores[i], (i + 1) % n_output ? ' ' : '\n');
    }
    free (patches), free (scores);
    wiremill_client_close (&client);
    return 0;
}
