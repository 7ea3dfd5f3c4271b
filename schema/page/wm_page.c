/* wm_page.c - see wm_page.h.  */
#include "schema/page/wm_page.h"

#include "schema/page/wm_svg.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *wm_page_count (int64_t n, char text[32])
{
    char digits[24];
    const int length = snprintf (digits, sizeof digits, "%lld", (long long) n);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-')
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

/* Pictures of lines, which a dark page inverts: not those of charge, nor of a density, whose shades
   stand for numbers on white.  */
#define LINES "svg:not(:has(image,[fill='#d6e4f2'],[fill='#08274f']))"

/* The style aligns numbers to the right and gives all digits one width. The security policy has
   the browser run no script and load nothing from elsewhere, whatever a label contains.  */
static const char policy[] =
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; img-src data:";
static const char style[] =
    "\">\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{margin:0;background:#fff;color:#222;font:15px/1.45 system-ui,sans-serif}\n"
    "main{max-width:1080px;margin:0 auto;padding:16px}\n"
    "h1{font-size:1.5em;margin:.2em 0 .5em}\n"
    "h2{font-size:1.15em;margin:1.3em 0 .4em;border-bottom:1px solid #ccc}\n"
    "h3{font-size:1em;margin:1em 0 .3em}\n"
    "p{margin:.4em 0;overflow-wrap:anywhere}\n"
    ".verdict{border-left:6px solid #8a8a8a;background:#f4f4f4;padding:.5em .8em}\n"
    ".good{border-color:#0b5fb4}.bad{border-color:#a81420}\n"
    ".table{overflow-x:auto}\n"
    "table{border-collapse:collapse;margin:.4em 0;font-size:.92em}\n"
    "caption{text-align:left;color:#555;padding-bottom:.2em;white-space:nowrap}\n"
    "th,td{text-align:left;vertical-align:top;padding:.2em .7em .2em 0;border-bottom:1px solid "
    "#e4e4e4}\n"
    "th{font-weight:600}\n"
    ".grid{display:flex;flex-wrap:wrap;gap:2px;font-size:.75em;line-height:1.1em}\n"
    ".grid span{width:1.5em;padding:.2em 0;text-align:center;background:#0b5fb4;color:#fff}\n"
    ".grid small{margin:.2em 1.2em 0 .3em;font-size:1em}\n"
    ".grid .open{background:#e4e4e4;color:#222}"
    ".grid .partly,.grid .changed{background:#cf7d00;color:#222}.grid .held{background:#a81420}\n"
    ".same{font-weight:600}details{margin:.4em 0}summary{cursor:pointer}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td{overflow-wrap:anywhere}.n,.w{overflow-wrap:normal}.w{white-space:nowrap}\n"
    ".pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:8px}\n"
    "figure{margin:.6em 0}.pictures figure{margin:0}\n"
    "svg,img{max-width:100%;height:auto;display:block}\n"
    "figcaption{font-size:.85em;color:#555;padding:0 .3em}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.5em .8em;"
    "font-size:.85em;margin:.4em 0}.columns{columns:22em}\n"
    ".columns span{display:block;break-inside:avoid;padding-left:2em;text-indent:-2em}\n"
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:0 24px}\n"
    ".sign{display:flex;gap:2em;margin-top:2em}.sign p{flex:1;border-top:1px solid #222;"
    "padding-top:.2em;color:#555;font-size:.85em}\n"
    "footer{margin-top:1.5em;color:#555;font-size:.85em}\n"
    "@media screen and (max-width:900px){caption{white-space:normal}main{padding:10px}"
    "td{min-width:6em}td.n,td.w{min-width:0}"
    ".wide{overflow-x:auto}.wide svg,.wide img{max-width:none}}\n"
    "@media screen and (prefers-color-scheme:dark){body{background:#14171a;color:#dcdcdc}"
    "h2{border-color:#4a4f55}th,td{border-color:#33383d}caption,figcaption,footer,.sign p"
    "{color:#a8adb3}.verdict,pre{background:#1f2428}.grid .open{background:#4a4f55;color:#fff}"
    "a{color:#7db7f0}.good{border-color:#5aa2e6}.bad{border-color:#f03838}" LINES
    "{fill:#dcdcdc}" LINES ">rect:first-of-type{fill:#14171a}" LINES
    " [stroke='#222']{stroke:#dcdcdc}" LINES " [fill='#222']{fill:#dcdcdc}" LINES
    " [stroke='#e4e4e4']{stroke:#33383d}" LINES " [stroke='#0b5fb4']{stroke:#5aa2e6}" LINES
    " [fill='#0b5fb4']{fill:#5aa2e6}" LINES " [stroke='#a81420']{stroke:#f03838}" LINES
    " [fill='#a81420']{fill:#f03838}" LINES " [stroke='#cf7d00']{stroke:#ffd24f}" LINES
    " [fill='#cf7d00']{fill:#ffd24f}" LINES " [stroke='#6a3d9a']{stroke:#c9a6f0}" LINES
    " [fill='#6a3d9a']{fill:#c9a6f0}}\n"
    "@page{margin:12mm}\n"
    "@media print{body{font-size:10.5px;print-color-adjust:exact;-webkit-print-color-adjust:exact}"
    "main{max-width:none;padding:0}.pictures{grid-template-columns:repeat(3,1fr)}"
    ".table{overflow:visible}section,figure,tr{break-inside:avoid}h2,h3{break-after:avoid}"
    ".page{break-before:page}.two{grid-template-columns:1fr 1fr}}\n";

#define NUMBER_HEAD "th scope=\"col\" class=\"n\""

static void begin (FILE *out, const char *title)
{
    fputs ("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", out);
    wm_svg_text (out, title);
    fputs ("</title>\n", out);
    fputs (policy, out);
}

void wm_page_begin (FILE *out, const char *title)
{
    begin (out, title);
    fputs (style, out);
    fputs ("</style>\n</head>\n<body>\n<main>\n", out);
    wm_page_put (out, "h1", "%s", title);
}

void wm_page_begin_script (FILE *out, const char *title, const char *more, const char *script)
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    begin (out, title);
    crypto_hash_sha256 (hash, (const uint8_t *) script, strlen (script));
    fputs ("; base-uri 'none'; form-action 'none'; script-src 'sha256-", out);
    wm_svg_base64 (out, hash, sizeof hash);
    fprintf (out, "'%s%s</style>\n<script>%s</script>\n</head>\n<body>\n", style, more, script);
    wm_page_put (out, "h1", "%s", title);
}

void wm_page_end (FILE *out)
{
    fputs ("</main>\n</body>\n</html>\n", out);
}

static void print (FILE *out, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf (&text, format, args) < 0)
        text = NULL;
    wm_svg_text (out, text ? text : "?");
    free (text);
}

void wm_page_print (FILE *out, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    print (out, format, args);
    va_end (args);
}

void wm_page_put (FILE *out, const char *element, const char *format, ...)
{
    va_list args;
    fprintf (out, "<%s>", element);
    va_start (args, format);
    print (out, format, args);
    va_end (args);
    fprintf (out, "</%.*s>\n", (int) strcspn (element, " "), element);
}

void wm_page_count_cell (FILE *out, uint64_t n)
{
    char text[32];
    wm_page_put (out, "td class=\"n\"", "%s", wm_page_count ((int64_t) n, text));
}

void wm_page_table (FILE *out, const char *caption)
{
    fputs ("<div class=\"table\" tabindex=\"0\"><table>\n", out);
    wm_page_put (out, "caption", "%s", caption);
}

void wm_page_table_end (FILE *out)
{
    fputs ("</table></div>\n", out);
}

static void put_heads (FILE *out, const char *heads)
{
    for (int n; *heads; heads += n + (heads[n] == '|')) {
        const bool is_number = *heads == '#';
        heads += is_number;
        n = (int) strcspn (heads, "|");
        wm_page_put (out, is_number ? NUMBER_HEAD : "th scope=\"col\"", "%.*s", n, heads);
    }
}

void wm_page_heads_of (FILE *out, const char *before, const char (*name)[48], uint32_t n,
                       const char *behind)
{
    fputs ("<thead><tr>", out);
    put_heads (out, before);
    for (uint32_t k = 0; k < n; k++)
        wm_page_put (out, NUMBER_HEAD, "%s", name[k]);
    put_heads (out, behind);
    fputs ("</tr></thead>\n", out);
}

void wm_page_heads (FILE *out, const char *heads)
{
    wm_page_heads_of (out, heads, NULL, 0, "");
}

void wm_page_row (FILE *out, const char *format, ...)
{
    va_list args;
    fputs ("<tr><th scope=\"row\">", out);
    va_start (args, format);
    print (out, format, args);
    va_end (args);
    fputs ("</th>\n", out);
}

void wm_page_pictures (FILE *out)
{
    fputs ("<div class=\"pictures\">\n", out);
}

void wm_page_pictures_end (FILE *out)
{
    fputs ("</div>\n", out);
}
