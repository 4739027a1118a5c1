# Passes an MPEG transport stream on in pieces that begin with a keyframe: `perl pacer.pl PERIOD ALIGNED < in > out`. The first piece
# passes at once, each of the others PERIOD seconds after the one before it, or with ALIGNED = 1 at the next multiple of PERIOD
# on the clock.
use strict;
use warnings;
use Time::HiRes qw(time sleep);

my ($period, $is_aligned) = @ARGV;
my ($piece, $keyframes, $passed_at, $packets) = ('', 0, undef, '');
binmode STDIN;
binmode STDOUT;

sub pass_piece {
    if (defined $passed_at) {
        my $due = $is_aligned ? (int(time / $period) + 1) * $period : $passed_at + $period;
        my $now = time;
        sleep($due - $now) if $due > $now;
    }
    while (length $piece) {
        my $written = syswrite(STDOUT, $piece) // exit 1;
        substr($piece, 0, $written, '');
    }
    $passed_at = time;
}

while (sysread(STDIN, $packets, 65536, length $packets)) {
    while (length $packets >= 188) {
        my $packet = substr($packets, 0, 188, '');
        my ($high, $low, $control, $length, $flags) = unpack('x C5', $packet);
        my $is_video = (($high & 0x1f) << 8 | $low) == 0x41;
        my $is_random_access = $control & 0x20 && $length > 0 && $flags & 0x40;
        pass_piece() if $is_video && $high & 0x40 && $is_random_access && $keyframes++;
        $piece .= $packet;
    }
}
pass_piece();
