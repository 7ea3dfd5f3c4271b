#!/usr/bin/perl
# words.pl - finds the words in comments and manual pages that the house's English rules out.
#
# usage: perl tests/words.pl FILE... (paths from the root)
# Prints "FILE:LINE WORD" for each place. Of a C or CUDA source only comments count:
# messages are pinned by tests. Of a shell, Perl, Python or make file the comment lines count; of a page (.md, .abnf) all of it.
use strict;
use warnings;

my $word = qr/\b(?:nobody|somebody|tells|is\s+none|for\s+ever)\b/i;
for my $file (@ARGV) {
    open my $handle, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$handle> };
    if ($file =~ /\.(?:c|h|cu|cuh)$/) {
        # Everything but comments becomes blank; lines keep their numbers.
        $text =~ s{(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|.)}{
            my ($comment, $code) = ($1, $2);
            $comment // $code =~ tr/\n/ /cr}gse;
    } elsif ($file !~ /\.(?:md|abnf)$/) {
        $text =~ s/^(?!\s*#).*$//mg;
    }
    while ($text =~ /$word/g) {
        my ($found, $before) = ($&, substr ($text, 0, $-[0]));
        print "$file:", 1 + ($before =~ tr/\n//), ' ', $found =~ s/\s+/ /gr, "\n";
    }
}
