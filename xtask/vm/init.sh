#!/bin/busybox sh
# The first process of the guest: runs the programs that the file `list` names, and says what became of them.
# A line of the list: the most seconds, the last second in which it may begin, how many busy loops run beside it, how often it may fail, a name, the command.
# Lines that start with @ are for xtask.
export PATH=/bin HOME=/ TMPDIR=/tmp NANOS_CPUMGR=off
busybox mkdir -p /proc /sys /dev /tmp
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# For the manager's fences; a kernel without control groups skips their tests.
mount -t cgroup2 cgroup /sys/fs/cgroup || true
# Nothing but the programs moves memory.
[ ! -e /proc/sys/kernel/numa_balancing ] || echo 0 > /proc/sys/kernel/numa_balancing
echo "@up $(nproc) processors, $(ls -d /sys/devices/system/node/node[0-9]* | wc -l) nodes"
# A program that took longer before it failed is not tried again: there is no time for it.
LONGEST_AGAIN=120
programs=0 failed=0
# Runs it once, and tells of it; the mark is `end`, or `unsteady` where another try follows a failure.
try() {
    echo "@begin $name"
    start=$(cut -d. -f1 /proc/uptime)
    running=
    for hog in $(busybox seq "$hogs"); do
        sh -c 'while :; do :; done' "hog $hog" < /dev/null &
        running="$running $!"
    done
    # shellcheck disable=SC2086  # the command's words
    timeout -k 1 "$limit" $command < /dev/null 2>&1
    code=$?
    # shellcheck disable=SC2086  # their numbers
    [ -z "$running" ] || { kill $running; wait $running; } 2> /dev/null
    took=$(($(cut -d. -f1 /proc/uptime) - start)) mark=end
    [ "$code" = 0 ] || [ "$1" = last ] || [ "$took" -gt "$LONGEST_AGAIN" ] || mark=unsteady
    echo "@$mark $name $code $took"
    # What its tests skipped, as they noted it.
    [ ! -s /tmp/skips ] || { sed 's/^/@skip /' /tmp/skips; rm /tmp/skips; }
    [ "$mark" = end ]
}
while read -r limit last hogs failures name command; do
    if [ "$(cut -d. -f1 /proc/uptime)" -gt "$last" ]; then
        echo "@late $name"
        continue
    fi
    if [ "$failures" = 0 ] || ! try first; then try last; fi
    programs=$((programs + 1))
    [ "$code" = 0 ] || failed=$((failed + 1))
done < /list
echo "@RESULT programs=$programs failed=$failed"
if [ "$failed" = 0 ]; then qexit 42; else qexit 43; fi
