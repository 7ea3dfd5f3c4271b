/* wm_advertise.c - see wm_advertise.h.  */
#include "broker/listen/wm_advertise.h"
#include "schema/wm_limits.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int add (wm_endpoint_t *self, int n, const wm_address_t *address, const char *host)
{
    char text[WM_ADDRESS_BYTES];
    const size_t used = strlen (self->advertise);
    wm_address_print (address, host, text);
    if (n == WM_ADDRESSES_MAX || used + strlen (text) + 2 > sizeof self->advertise)
        return n;
    sprintf (self->advertise + used, "%s%s", used ? "," : "", text);
    return n + 1;
}

/* The machine's name, then the addresses of its interfaces that other machines may reach.  */
static int add_machine (wm_endpoint_t *self, int n, const wm_address_t *address)
{
    struct ifaddrs *all = NULL;
    if (*self->host && strcmp (self->host, "localhost") != 0)
        n = add (self, n, address, self->host);
    const bool is_v4 = strcmp (address->host, "0.0.0.0") == 0;
    if (getifaddrs (&all))
        return n;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        const int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) (const void *) a->ifa_addr;
        char number[WM_HOST_BYTES - 2], host[WM_HOST_BYTES];
        if (!(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK) ||
            (family != AF_INET && (family != AF_INET6 || is_v4)) ||
            (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL (&v6->sin6_addr)) ||
            getnameinfo (a->ifa_addr, family == AF_INET ? sizeof (struct sockaddr_in) : sizeof *v6,
                         number, sizeof number, NULL, 0, NI_NUMERICHOST))
            continue;
        snprintf (host, sizeof host, family == AF_INET6 ? "[%s]" : "%s", number);
        n = add (self, n, address, host);
    }
    freeifaddrs (all);
    return n;
}

void wm_advertise (wm_endpoint_t *self, const char *endpoint, const char *listens,
                   const char *given)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    memset (self, 0, sizeof *self);
    snprintf (self->endpoint, sizeof self->endpoint, "%s", endpoint);
    snprintf (self->listen, sizeof self->listen, "%s", listens);
    snprintf (self->version, sizeof self->version, "%s", WM_VERSION);
    gethostname (self->host, sizeof self->host - 1);
    self->pid = getpid ();
    self->started_s = time (NULL);
    const int n_list = wm_address_parse (list, given ? given : listens,
                                         given ? WM_ADDRESS_CONNECT : WM_ADDRESS_LISTEN, &error);
    for (int i = 0, n = 0; i < n_list; i++) {
        const bool is_any = list[i].scheme == WM_ADDRESS_TCP &&
                            (strcmp (list[i].host, "*") == 0 || strcmp (list[i].host, "::") == 0 ||
                             strcmp (list[i].host, "0.0.0.0") == 0);
        if (is_any)
            n = add_machine (self, n, &list[i]);
        else if (given || !wm_address_is_near (&list[i])) /* a tunnel may end on loopback */
            n = add (self, n, &list[i], NULL);
    }
}

static void print_ports (const wm_address_t *first)
{
    if (first->scheme == WM_ADDRESS_TCP)
        fprintf (stderr, "wiremill-broker: workers use port %d, producers %d, operators %d\n",
                 first->port[0], first->port[1], first->port[2]);
}

/* What a program says that has its patches scored.  */
static void print_client (const wm_endpoint_t *self, const char *campaign, const char *address)
{
    fprintf (stderr, "wiremill-broker: in Python: wiremill.Client (\"%s\"", address);
    if (self->has_keys)
        fprintf (stderr, ", join_file=\"%s/join-producer\"", campaign);
    fputs ("); in C: wiremill_connect\n", stderr);
}

void wm_advertise_print (const wm_endpoint_t *self, const char *campaign, const char *command,
                         bool for_clients)
{
    static const char *const line[][3] = { { "produce", "producer", " --input 'FILES'" },
                                           { "work", "worker", "" },
                                           { "status", "monitor", "" } };
    const char *all = *self->advertise ? self->advertise : self->endpoint;
    char first[WM_ADDRESS_BYTES];
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    const int n = wm_address_parse (list, all, WM_ADDRESS_CONNECT, &error);
    wm_address_print (&list[0], NULL, first);
    fprintf (stderr, "wiremill-broker: serves %s at %s\n", campaign, self->listen);
    if (n > 0 && strcmp (self->listen, first) != 0)
        fprintf (stderr, "wiremill-broker: other machines reach it at %s\n", first);
    print_ports (&list[0]);
    const bool is_local = !*self->advertise;
    fprintf (stderr, "wiremill-broker: type on %s:\n",
             is_local ? "this machine" : "any machine that reaches it");
    for (size_t i = for_clients; i < sizeof line / sizeof *line; i++) {
        fprintf (stderr, "  %s %s --broker %s", command, line[i][0], first);
        if (self->has_keys)
            fprintf (stderr, " --join-file %s/join-%s", campaign, line[i][1]);
        fprintf (stderr, "%s\n", line[i][2]);
    }
    if (for_clients)
        print_client (self, campaign, first);
    if (is_local)
        fputs ("wiremill-broker: for other machines: --listen tcp://ADDRESS:PORT\n", stderr);
    else
        fputs ("wiremill-broker: where the campaign's folder is shared: --campaign DIR in place of "
               "--broker\n",
               stderr);
    if (self->has_keys)
        fputs ("wiremill-broker: copy a join file there with scp: whoever has it can join; "
               "`wiremill keys` lists, adds and revokes keys\n",
               stderr);
    if (for_clients)
        fputs ("wiremill-broker: Ctrl-C stops the broker; it keeps no patches and no scores\n",
               stderr);
    else
        fputs (
            "wiremill-broker: Ctrl-C stops the broker; the same command continues the campaign\n",
            stderr);
}
