#!/bin/sh
# A disk holds what a guest wrote: after its power-off, and what it had flushed when its monitor is killed.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh

# guest POLICY DISK ORDERS: runs a guest with this disk in a table of the configuration.
guest() {
    { policy "$1"; configure linux 1 "$3"; echo "disk = $2"; } >guest.toml
    stile run guest.toml >output 2>&1
}
writable='"disk.img"'
guarded='{ path = "disk.img", read_only = true }'

truncate -s 32M disk.img
echo "-- written, power-off"
guest host "$writable" "write /dev/vda 32M 7" || { cat output; exit 1; }
echo "-- read by another guest, which may not write"
if guest rsdl "$guarded" "check /dev/vda 32M 7; echo it holds; write /dev/vda 1M 9; echo it was written"; then
    echo "a read-only disk was written"
    exit 1
fi
grep -q "^it holds" output || { cat output; exit 1; }

echo "-- flushed, and the monitor killed"
{ policy rsdl; configure linux 1 "write /dev/vda 16M 8; echo it is stored; idle"; echo "disk = $writable"; } >killed.toml
stile run killed.toml >first-output 2>&1 &
monitor=$!
until grep -q "^it is stored" first-output; do
    kill -0 $monitor || { cat first-output; exit 1; }
    sleep 0.2
done
echo "-- a disk in use is refused to other VMs"
if guest host "$writable" "echo two write one disk"; then
    cat output
    exit 1
fi
grep -q "in use" output || { cat output; exit 1; }
kill -KILL $monitor
wait $monitor
guest host "$guarded" "check /dev/vda 16M 8" || { cat output; exit 1; }
