#!/usr/bin/perl
# names.pl - functions that nothing calls, non-static names that do not begin with wm_ or, in libwiremill, wiremill_, and
# circles of files that call each other.
#
# usage: tests/names.pl FILE...     (all C and CUDA sources and headers; those of tests/ only use what others define)
# Prints "unused PLACE: NAME ...", "name PLACE: NAME" and "circle FOLDER: FILE..." lines. A circle has the files of a folder of
# which each calls functions of the next, and the last those of the first. It counts words: a function whose name appears in no more
# places than its declarations and definitions is not used; names that macros paste together are left out.
use strict;
my (%defined, %public, %product, %tests, %own, %pasted, %words, %makers);
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> };
    # Comments, strings and characters go; their lines stay.
    $text =~ s{(/\*.*?\*/|//[^\n]*)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')}
              {if ($1) { (my $lines = $1) =~ s/[^\n]//g; $lines } else { '0' }}gsex;
    my $is_test = $file =~ m{^tests/};
    my $count = $is_test ? \%tests : \%product;
    $count->{$1}++ while $text =~ /\b(\w+)\b/g;
    next if $is_test;
    my ($folder, $base) = $file =~ m{^(.*)/([^/]+)$};
    $words{$folder}{$base} = {map { $_ => 1 } $text =~ /\b(wm_\w+)\b/g} if $base =~ /\.(c|cu)$/;
    $pasted{$1 // $2} = 1 while $text =~ /##\s*(_\w+)|(\w+_)\s*##/g;
    # In this house's style a definition begins at the left and has its brace on a line of its own.
    $own{$1}++ while $text =~ /^(?!return\b)[A-Za-z_][^\n;=(]*?\b(\w+) \(/mg;
    while ($text =~ /^((?!static (?!inline)|typedef|return)[A-Za-z_][^\n;=(]*?)\b(\w+) \([^;{}]*\)\s*\n\{/mg) {
        $defined{$2} = "$file:" . (1 + (substr ($text, 0, $-[0]) =~ tr/\n//));
        next if $1 =~ /static|INLINE/; # wm_sparse_kernel.h defines INLINE as static inline
        $public{$2} = 1;
        $makers{$folder}{$2}{$base} = 1 if $words{$folder}{$base};
    }
}
delete $defined{main};
for my $name (sort { $defined{$a} cmp $defined{$b} } keys %defined) {
    print "name $defined{$name}: $name\n" if $public{$name} && $name !~ /^wm_|^wiremill_/;
    next if $name =~ /^wiremill_/; # for programs outside
    next if $product{$name} > $own{$name} || grep { $name =~ /\Q$_\E$|^\Q$_\E/ } keys %pasted;
    print "unused $defined{$name}: $name", ($tests{$name} ? ' (tests use it)' : ''), "\n";
}
# Which files a file calls, directly or by others: a circle's files reach themselves, and each other.
for my $folder (sort keys %words) {
    my ($files, $makers) = ($words{$folder}, $makers{$folder});
    my %calls;
    for my $file (keys %$files) {
        for my $name (grep { $makers->{$_} && !$makers->{$_}{$file} } keys %{$files->{$file}}) {
            $calls{$file}{$_} = 1 for keys %{$makers->{$name}};
        }
    }
    for my $by (keys %calls) { # Warshall
        for my $from (grep { $calls{$_}{$by} } keys %calls) { $calls{$from}{$_} = 1 for keys %{$calls{$by}} }
    }
    my %seen;
    for my $file (grep { $calls{$_}{$_} } sort keys %calls) {
        next if $seen{$file};
        my @circle = grep { $calls{$file}{$_} && $calls{$_}{$file} } sort keys %calls;
        $seen{$_} = 1 for @circle;
        print "circle $folder: @circle\n";
    }
}
