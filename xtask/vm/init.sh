#!/bin/busybox sh
# The first process of the guest: runs the programs that the file `list` names, and says what became of them.
# A line of the list: the most seconds, the last second in which it may begin, how many busy loops run beside it, a name, the command.
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
programs=0 failed=0
while read -r limit last hogs name command; do
    if [ "$(cut -d. -f1 /proc/uptime)" -gt "$last" ]; then
        echo "@late $name"
        continue
    fi
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
    echo "@end $name $code $(($(cut -d. -f1 /proc/uptime) - start))"
    # What its tests skipped, as they noted it.
    [ ! -s /tmp/skips ] || { sed 's/^/@skip /' /tmp/skips; rm /tmp/skips; }
    programs=$((programs + 1))
    [ "$code" = 0 ] || failed=$((failed + 1))
done < /list
echo "@RESULT programs=$programs failed=$failed"
if [ "$failed" = 0 ]; then qexit 42; else qexit 43; fi
