#!/bin/bash
# Checks of the package and the service in a guest with systemd, each by name. Lines that start with
# @ are for xtask. Alice and Bob are users without any privilege; the guest has four processors.
# A check is a function: 0 is well; what it says is shown when it fails. 77: the machine is too busy
# to tell; 78: this build is not judged by it. Each is seen failing with a fault of its own: some
# always (`...-is-seen`), the others where that was asked for (`cargo xtask vm systemd --planted`).
set -u
export LC_ALL=C SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat PATH=/usr/sbin:/usr/bin:/sbin:/bin
export DEBIAN_FRONTEND=noninteractive
checks=0 failed=0
wanted=$(cat /opt/wanted) seconds=$(cat /opt/seconds) plants=$(cat /opt/planted)
optimized=$(cat /opt/optimized)
# How many checks come last of all, their number, where the next one stands, and what is run of them.
first=$(cat /opt/first) places=0 place=0 part=all

say() { printf '%s\n' "$*"; }
as() { local user=$1; shift; runuser -u "$user" -- "$@"; }
manager() { systemctl show -P MainPID cpumgr.service; }
status() { cpumgr status --json; }

# Looks until a command succeeds, at most so many seconds of a quiet machine.
within() {
    local end=$((SECONDS + 3 * $1)); shift
    until "$@" > /dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { say "not within its time: $*"; return 1; }
        sleep 0.1
    done
}

check() {
    local name=$1; shift
    place=$((place + 1))
    case $part in
        count) places=$place; return ;;
        from) [ "$place" -gt "$first" ] || return ;;
        before) [ "$place" -le "$first" ] || return ;;
    esac
    case " $wanted " in *" all "* | *" $name "*) ;; *) return ;; esac
    # After the first one, without which there is nothing to check.
    if [ "$checks" -gt 0 ] && [ "$SECONDS" -ge "$seconds" ]; then
        echo "@check late $name"
        return
    fi
    local text code
    text=$("$@" 2>&1); code=$?
    case "$code" in
        77) echo "@check busy $name $(tail -n 1 <<< "$text")"; return ;;
        78) echo "@check skipped $name $(tail -n 1 <<< "$text")"; return ;;
    esac
    checks=$((checks + 1))
    if [ "$code" = 0 ]; then
        echo "@check ok $name $(tail -n 1 <<< "$text")"
    else
        failed=$((failed + 1))
        echo "@check FAILED $name"
        sed 's/^/    /' <<< "$text"
    fi
}

# The check sees a fault: `plant` makes one, `mend` takes it away.
fails_with() {
    local plant=$1 mend=$2; shift 2
    "$plant" > /dev/null 2>&1
    if "$@" > /dev/null 2>&1; then
        "$mend" > /dev/null 2>&1
        say "the planted fault is not seen"
        return 1
    fi
    "$mend" > /dev/null 2>&1
    say "seen failing"
}

# The same for a check of which that is seen only where it was asked for.
planted() {
    local name=$1; shift
    [ "$plants" = yes ] || return 0
    check "$name-is-seen" fails_with "$@"
}

# A drop-in of the service with these lines, and without.
with() {
    mkdir -p /run/systemd/system/cpumgr.service.d
    printf '%s\n' '[Service]' "$@" > /run/systemd/system/cpumgr.service.d/plant.conf
    systemctl daemon-reload; systemctl restart cpumgr.service
}
without() {
    rm -rf /run/systemd/system/cpumgr.service.d
    systemctl daemon-reload; systemctl reset-failed cpumgr.service
    systemctl restart cpumgr.socket cpumgr.service
    within 20 systemctl -q is-active cpumgr.service
    [ -z "$(pgrep -x team)" ] || end_all
}
# A configuration of its own, and none.
configured() {
    mkdir -p /etc/cpumgr/cpumgr.toml.d
    printf '%s\n' "$@" > /etc/cpumgr/cpumgr.toml.d/plant.toml
    systemctl restart cpumgr.service
}
unconfigured() { rm -f /etc/cpumgr/cpumgr.toml.d/plant.toml; without; }

# --- programs

# A team of a user, under the manager; its number is in /tmp/NAME.pid.
run_with=
team() {
    local user=$1 name=$2 seconds=$3; shift 3
    rm -f "/tmp/$name.log" "/tmp/$name.pid"
    as "$user" sh -c "echo \$\$ > /tmp/$name.pid; exec cpumgr run $run_with -- /opt/team $seconds /tmp/$name.log $*" \
        > "/tmp/$name.out" 2>&1 &
}
pid() { cat "/tmp/$1.pid" 2> /dev/null; }
size() { awk 'NF == 2 && $2 != "end" { s = $2 } END { print s + 0 }' "/tmp/$1.log" 2> /dev/null || echo 0; }
has() { [ "$(size "$1")" = "$2" ]; }
grown() { [ "$(size "$1")" -ge "$2" ]; }
end_all() {
    pkill -KILL -x team
    within 20 no_programs
}
no_programs() { [ "$(status | grep -o '"program_count":[0-9]*')" = '"program_count":0' ]; }
knows() { status | grep -q "\"pid\":$(pid "$1"),"; }

# Milliseconds of the longest time for which a team was smaller than SIZE from time FROM on. Between
# two regions a team lends what it does not use to the other one, for some 10 ms each time here: all
# that together is no part of what a restart costs.
shrunken() {
    awk -v from="$2" -v size="$3" -v now="$(monotonic)" '
        NF == 2 && $2 != "end" { t[++n] = $1; s[n] = $2 }
        END {
            t[n + 1] = now
            for (i = 1; i <= n; i++) {
                a = t[i] > from ? t[i] : from; b = t[i + 1]
                stretch = s[i] < size && b > a ? stretch + b - a : 0
                if (stretch > longest) longest = stretch
            }
            print longest + 0
        }' "/tmp/$1.log"
}
monotonic() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# --- the package

installs() {
    dpkg -i /opt/cpumgr_1.deb || return 1
    within 20 systemctl -q is-active cpumgr.service || { systemctl status cpumgr.service; return 1; }
    systemctl -q is-active cpumgr.socket || return 1
    systemctl -q is-enabled cpumgr.service cpumgr.socket || return 1
    cpumgr check-config --system
}

three_commands() {
    # `dpkg -i cpumgr.deb` was the first one, this is the second one.
    local before; before=$(arrivals)
    as alice cpumgr run -- /opt/team 1 /tmp/first.log 2> /tmp/first.err || { cat /tmp/first.err; return 1; }
    [ ! -s /tmp/first.err ] || { cat /tmp/first.err; return 1; }
    grep -q ' 4$' /tmp/first.log || { cat /tmp/first.log; return 1; }
    # At the manager of the machine, and not at one of Alice's own.
    [ "$(arrivals)" -gt "$before" ] || { say "no program arrived"; return 1; }
    say "two commands: dpkg -i, cpumgr run"
}
arrivals() { journalctl -q --no-pager -u cpumgr -o cat | grep -c 'a program arrives .*name=team'; }
mask_units() { systemctl stop cpumgr.socket cpumgr.service; systemctl mask cpumgr.socket cpumgr.service; }
unmask_units() { systemctl unmask cpumgr.socket cpumgr.service; systemctl daemon-reload; start_units; }
stop_units() { systemctl stop cpumgr.socket cpumgr.service; }
start_units() {
    pkill -KILL -x team
    # A manager of Alice's own that began meanwhile.
    pkill -TERM -u alice -x cpumgr
    systemctl start cpumgr.socket cpumgr.service
    within 20 systemctl -q is-active cpumgr.service; within 20 no_programs
}

# --- hardened

hardened() {
    local p; p=$(manager)
    [ "$(stat -c %U "/proc/$p")" = cpumgr ] || { say "runs as $(stat -c %U "/proc/$p")"; return 1; }
    field() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$p/status"; }
    [ "$(field NoNewPrivs)" = 1 ] || { say "NoNewPrivs $(field NoNewPrivs)"; return 1; }
    [ "$(field Seccomp)" = 2 ] || { say "Seccomp $(field Seccomp)"; return 1; }
    # CAP_SYS_NICE is number 23.
    [ "$(field CapEff)" = 0000000000800000 ] || { say "CapEff $(field CapEff)"; return 1; }
    [ "$(field CapBnd)" = 0000000000800000 ] || { say "CapBnd $(field CapBnd)"; return 1; }
    local exposure; exposure=$(systemd-analyze security --threshold=25 cpumgr.service | tail -n 1)
    grep -q 'exposure level' <<< "$exposure" || return 1
    systemd-analyze security --threshold=25 cpumgr.service > /dev/null || { say "$exposure"; return 1; }
    grep -q . "/proc/$p/cgroup" && say "exposure ${exposure##*: }"
}
loosen() { with NoNewPrivileges=no 'CapabilityBoundingSet=~' SystemCallFilter=; }

# Where the kernel does not name the process at a socket (before Linux 6.5) the manager looks at its
# number twice (D11). A filter of system calls makes each kernel such a one.
lower_rung() {
    /opt/lower cpumgr doctor --json | grep -o '"check":"identity"[^}]*' | grep -q 'looks twice' \
        || { say "the filter hides nothing"; return 1; }
    with ExecStart= "ExecStart=$rung /usr/bin/cpumgr daemon --system"
    within 20 systemctl -q is-active cpumgr.service || { systemctl status cpumgr.service; return 1; }
    # Systemd's filters are there without it.
    local filters; filters=$(awk '$1 == "Seccomp_filters:" { print $2 }' "/proc/$(manager)/status")
    team alice a1 3000
    team bob b1 3000
    within 20 has a1 2 && within 20 has b1 2 && within 20 knows a1 && within 20 knows b1 \
        || { status; journalctl -q --no-pager -u cpumgr -n 20; return 1; }
    # Each is its user's by what the kernel says, and not by what it says itself.
    as alice cpumgr status --json | grep -q "\"pid\":$(pid a1)," || { say "not Alice's"; return 1; }
    as bob cpumgr status --json | grep -q "\"pid\":$(pid a1)," && { say "Bob's"; return 1; }
    local old; old=$(manager)
    kill -9 "$old"
    within 30 adopted "$old" || { say "not adopted"; return 1; }
    without
    [ "$filters" -gt "$(awk '$1 == "Seccomp_filters:" { print $2 }' "/proc/$(manager)/status")" ] \
        || { say "the manager had no filter"; return 1; }
    say "without SO_PEERPIDFD: 2 and 2, adopted after a kill"
}
rung=/opt/lower
upper_rung() { rung=; }
rung_again() { rung=/opt/lower; without; }

# --- sizes

sizes() {
    team alice a1 3000
    within 20 has a1 4 || return 1
    team bob b1 3000
    within 20 has b1 2 || return 1
    within 20 has a1 2 || return 1
    # Users share first: Alice's second program takes of hers.
    team alice a2 3000
    within 20 has a2 1 && within 20 has a1 1 && within 20 has b1 2 || { status; return 1; }
    pkill -KILL -u bob -x team
    within 20 has a1 2 && within 20 has a2 2 || { status; return 1; }
    end_all
    say "4; 2 and 2; 1, 1 and 2; 2 and 2"
}
one_processor() { configured '[programs.team]' 'processors = 1'; }
no_group() { configured 'admin-group = ""'; }
group_again() { gpasswd -d alice cpumgr; unconfigured; }
reload_nothing() { with ExecReload= ExecReload=/bin/true; }
bob_administers() { usermod -aG cpumgr bob; }
bob_does_not() { gpasswd -d bob cpumgr; without; }
heavy_bob() { configured '[users.bob]' 'weight = 1000'; }
administers() {
    local before; before=$(cpumgr policy | grep '^\*')
    as bob cpumgr set quantum 50ms && { say "Bob changed the quantum"; return 1; }
    as bob cpumgr reload && { say "Bob reloaded"; return 1; }
    usermod -aG cpumgr alice || return 1
    as alice cpumgr set quantum 50ms || return 1
    [ "$(cpumgr set quantum)" = 50ms ] || return 1
    gpasswd -d alice cpumgr > /dev/null
    as alice cpumgr set quantum 70ms && { say "Alice is no member any more"; return 1; }
    [ "$(cpumgr policy | grep '^\*')" = "$before" ]
}
reloads() {
    cpumgr set quantum 60ms || return 1
    printf 'quantum = "40ms"\n' > /etc/cpumgr/cpumgr.toml
    systemctl reload cpumgr.service || return 1
    [ "$(cpumgr set quantum)" = 40ms ] || { cpumgr set; return 1; }
    printf 'quantum = "30ms"\ncolour = 1\n' > /etc/cpumgr/cpumgr.toml
    systemctl reload cpumgr.service && { say "a mistake was not told"; return 1; }
    [ "$(cpumgr set quantum)" = 40ms ] || { cpumgr set; return 1; }
    journalctl -q --no-pager -u cpumgr -o cat | grep -q 'cpumgr.toml:2: .*colour' || return 1
    within 10 systemctl -q is-active cpumgr.service || return 1
    printf 'quantum = "40ms"\n' > /etc/cpumgr/cpumgr.toml
    systemctl reload cpumgr.service
}

# --- one user and the other's

signals() {
    team alice a1 3000
    within 20 grown a1 1 && within 20 knows a1 || return 1
    as bob kill -0 "$(manager)" && { say "Bob may signal the manager"; return 1; }
    as bob kill -0 "$(pid a1)" && { say "Bob may signal Alice's program"; return 1; }
    local verb
    for verb in "detach $(pid a1)" "attach $(pid a1)" "set weight $(pid a1) 0.01" stop restart; do
        # shellcheck disable=SC2086
        as bob cpumgr $verb && { say "Bob: $verb"; return 1; }
    done
    kill -0 "$(pid a1)" && kill -0 "$(manager)"
    end_all
}
reads() {
    team alice a1 3000
    within 20 grown a1 1 && within 20 knows a1 || return 1
    status | grep -q '"name":"team"' || { say "root does not see it"; return 1; }
    as bob cpumgr status --json > /tmp/bob.json || return 1
    grep -q '"name":"team"\|"pid":'"$(pid a1)" /tmp/bob.json && { cat /tmp/bob.json; return 1; }
    as alice cpumgr history --json | grep -q '"program":"team"' || { say "Alice has no history"; return 1; }
    as bob cpumgr history --json | grep -q '"user":1000' && { say "Bob reads Alice's history"; return 1; }
    as bob cat /var/lib/cpumgr/history.redb > /dev/null 2>&1 && { say "Bob reads the file"; return 1; }
    local file
    for file in /run/cpumgr/app.sock.*; do
        as bob cat "$file" > /dev/null 2>&1 && { say "Bob reads $file"; return 1; }
    done
    as bob ls "/proc/$(pid a1)/fd" "/proc/$(manager)/fd" && { say "Bob sees descriptors"; return 1; }
    end_all
}
# The manager writes its settings anew, with the right mode; the history stays the same file.
open_files() { chmod 755 /var/lib/cpumgr; chmod 644 /var/lib/cpumgr/history.redb; }
close_files() { chmod 700 /var/lib/cpumgr; chmod 600 /var/lib/cpumgr/history.redb; end_all; }

starves() {
    team alice a1 3000
    within 20 has a1 4 || return 1
    local i
    for i in 1 2 3 4 5 6; do team bob "b$i" 3000; done
    within 40 knows b6 || return 1
    within 20 has a1 2 || { status; return 1; }
    # Connections that say nothing, all that Bob gets.
    as bob sh -c 'for i in $(seq 20); do cpumgr status > /dev/null 2>&1 & done; wait'
    # What asked used processors itself, which a manager leaves to strangers for a moment.
    within 20 has a1 2 || { say "Alice has $(size a1)"; return 1; }
    as alice timeout 20 cpumgr status > /dev/null || { say "Alice is not answered"; return 1; }
    end_all
    say "Alice keeps 2 of 4 beside 6 of Bob's"
}
spoofs() {
    local deed
    for deed in 'mv /run/cpumgr/app.sock /run/cpumgr/x' 'rm -f /run/cpumgr/app.sock' \
        'ln -sf /tmp/x /run/cpumgr/app.sock' 'touch /run/cpumgr/x' 'mv /run/cpumgr /run/x'; do
        as bob sh -c "$deed" 2> /dev/null && [ "$deed" != 'rm -f /run/cpumgr/app.sock' ] && {
            say "Bob: $deed"; return 1
        }
    done
    [ -S /run/cpumgr/app.sock ] || { say "the socket is gone"; return 1; }
    # What stands where Alice's own manager would be, and was where a plant took the service away.
    rm -rf /tmp/cpumgr-1000
    as bob mkdir -m 777 /tmp/cpumgr-1000 && as bob touch /tmp/cpumgr-1000/app.sock || return 1
    team alice a1 3000
    within 20 has a1 4 && knows a1 || { cat /tmp/a1.out; return 1; }
    # A program of Bob's with the name of Alice's is Bob's.
    team bob b1 3000
    within 20 has b1 2 && within 20 has a1 2 || return 1
    as bob cpumgr daemon --system > /tmp/second.out 2>&1 && { say "Bob has a manager there"; return 1; }
    rm -rf /tmp/cpumgr-1000
    end_all
}
open_directory() { chmod 777 /run/cpumgr; }
close_directory() {
    chmod 755 /run/cpumgr; rm -f /run/cpumgr/x; rm -rf /tmp/cpumgr-1000
    systemctl restart cpumgr.socket cpumgr.service; end_all
}

# --- a user that means harm, beside a program of Alice's

# Bob's attacks on the service as it is installed (`hostile.c`), each for some seconds. Meanwhile
# Alice and the superuser are answered, a program of Alice's that comes is taken in without a word,
# and the one that is there has her half; afterwards it is the same manager, which keeps nothing.
attacks='connects crowds asks never-reads announces enrols babbles burdens rings starts'
# shellcheck disable=SC2086
floods() { attacked $attacks; }
attacked() {
    team alice a1 3000
    within 20 has a1 4 && within 20 knows a1 || { say "no team"; status; return 1; }
    local old began descriptors memory attack costs=
    old=$(manager) began=$(systemctl show -P NRestarts cpumgr.service)
    descriptors=$(descriptors_of "$old") memory=$(memory_of "$old")
    for attack; do
        local used; used=$(ticks_of "$old")
        as bob /opt/hostile "$attack" 5 > /tmp/hostile.out 2>&1 &
        local bobs=$!
        sleep 2
        bystanders "$attack" || { kill "$bobs"; return 1; }
        wait "$bobs" || { say "$attack did not take place"; cat /tmp/hostile.out; return 1; }
        [ "$(manager)" = "$old" ] || { say "$attack: the manager is another one"; return 1; }
        costs="$costs $(tr ' ' '=' < /tmp/hostile.out)/$((($(ticks_of "$old") - used) * 10))ms"
    done
    [ "$(systemctl show -P NRestarts cpumgr.service)" = "$began" ] || { say "it was restarted"; return 1; }
    within 20 alone "$old" "$descriptors" || { ls -l "/proc/$old/fd"; status; return 1; }
    memory=$(($(memory_of "$old") - memory))
    [ "$memory" -lt 32768 ] || { say "it grew by $memory KiB"; return 1; }
    within 20 has a1 4 || { say "Alice has $(size a1)"; return 1; }
    kill -0 "$(pid a1)" || { say "Alice's program is dead"; return 1; }
    end_all
    say "same manager, $memory KiB more;$costs"
}
bystanders() {
    local said
    as alice timeout 20 cpumgr status > /dev/null || { say "$1: Alice is not answered"; return 1; }
    timeout 20 cpumgr policy > /dev/null || { say "$1: the superuser is not answered"; return 1; }
    said=$(as alice timeout 20 cpumgr run -- /bin/true 2>&1) && [ -z "$said" ] \
        || { say "$1: a program of Alice's: $said"; return 1; }
    within 5 grown a1 2 || { say "$1: Alice has $(size a1)"; return 1; }
    knows a1 || { say "$1: Alice's program is not known any more"; return 1; }
}
descriptors_of() { find "/proc/$1/fd" -mindepth 1 | wc -l; }
memory_of() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"; }
# Hundredths of a second; the name has no space.
ticks_of() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# Alice's program is the only one, and no descriptor is left (one may be that of a question).
alone() {
    status | grep -q '"program_count":1,' || return 1
    [ "$(descriptors_of "$1")" -le $(($2 + 1)) ]
}
few_descriptors() { with LimitNOFILE=48; }

# What those cost, in processor time: of all that the machine has meanwhile, the service uses less
# than 30 %, and Alice's program at least 10 %. A manager that is not optimized costs several times
# as much in an emulator, which says nothing of the one that is installed.
# shellcheck disable=SC2086
costs() {
    [ "$optimized" = yes ] || { say "costs are judged with an optimized manager alone"; return 78; }
    counted $attacks
    harmless $?
}
counted() {
    local old attack all used=0 hers=0 spent=0
    team alice a1 3000
    within 20 has a1 4 && within 20 knows a1 || { say "no team"; status; return 1; }
    old=$(manager)
    "$beside"
    for attack; do
        local from before mine; from=$(monotonic) before=$(ticks_of "$old") mine=$(ticks_of "$(pid a1)")
        as bob /opt/hostile "$attack" 5 > /tmp/hostile.out 2>&1 \
            || { say "$attack did not take place"; cat /tmp/hostile.out; return 1; }
        [ "$(manager)" = "$old" ] || { say "$attack: the manager is another one"; return 1; }
        # Ticks are hundredths of a second.
        all=$((4 * ($(monotonic) - from) / 10))
        before=$(($(ticks_of "$old") - before)) mine=$(($(ticks_of "$(pid a1)") - mine))
        [ $((before * 100)) -lt $((all * 30)) ] || { say "$attack: the service uses $before of $all ticks"; return 1; }
        # The kernel shares among threads, and Bob's that no manager knows yet are many.
        [ $((mine * 100)) -ge $((all * 10)) ] || { say "$attack: Alice has $mine of $all ticks"; return 1; }
        used=$((used + before)) hers=$((hers + mine)) spent=$((spent + all))
    done
    say "the service uses $((used * 100 / spent)) %, Alice's program $((hers * 100 / spent)) %"
}
# What runs beside them: nothing, or loops that no manager knows, before all that is Alice's.
beside=:
with_hogs() { beside=hogs; }
hogs() {
    local i
    renice -n 19 -u alice > /dev/null
    for i in 1 2 3 4; do sh -c ': hog; while :; do :; done' & done
}
no_hogs() { beside=:; pkill -KILL -f ': hog'; end_all; }

# Programs of Bob's that ask for all processors and sleep have none of them in the end.
bobs_deed=sleeps
sleepers() { slept; harmless $?; }
slept() {
    local i
    team alice a1 3000
    within 20 has a1 4 && within 20 knows a1 || { say "no team"; status; return 1; }
    for i in 1 2 3; do as bob /opt/hostile "$bobs_deed" 120 > /dev/null 2>&1 & done
    within 20 four_programs || { say "$(programs) programs"; status; return 1; }
    # Where Alice had less for a moment that was before it was known that they sleep.
    sleep 2
    within 10 has a1 4 || { say "Alice has $(size a1) beside sleepers"; status; return 1; }
    say "Alice has 4 of 4 beside 3 sleepers of Bob's"
}
four_programs() { [ "$(programs)" = 4 ]; }
they_work() { bobs_deed=works; }
they_sleep() { bobs_deed=sleeps; }

# A process of Alice's with 1,201 threads, each of which is bound and gets its mask back.
many() { bound_all; local code=$?; pkill -KILL -u alice -f /opt/hostile; end_all; return "$code"; }
bound_all() {
    as alice taskset -c 0-2 /opt/hostile threads 3000 > /tmp/threads.out 2>&1 &
    within 20 threads_are 1201 0-2 || { cat /tmp/threads.out; masks_of; return 1; }
    local round
    for round in detach stop; do
        as alice cpumgr attach "$(many_pid)" || return 1
        team bob "b$round" 3000
        within 20 knows "b$round" || return 1
        within 20 threads_are 0 0-2 || { say "$round: not all are bound"; masks_of; return 1; }
        [ "$(masks_of | awk '{ n += $1 } END { print n }')" = 1201 ] || { masks_of; return 1; }
        if [ "$round" = detach ]; then
            as alice cpumgr detach "$(many_pid)" || return 1
        else
            systemctl stop cpumgr.service || return 1
        fi
        within 60 threads_are 1201 0-2 || { say "$round: not all are back"; masks_of; return 1; }
        systemctl start cpumgr.service || return 1
        end_all
    done
    say "1201 threads bound, and back after detach and stop"
}
many_pid() { pgrep -u alice -f '^/opt/hostile threads' | head -n 1; }
# How many threads have which mask.
masks_of() {
    awk '$1 == "Cpus_allowed_list:" { n[$2]++ } END { for (mask in n) print n[mask], mask }' \
        "/proc/$(many_pid)"/task/*/status 2> /dev/null
}
threads_are() {
    local count; count=$(masks_of | awk -v mask="$2" '$2 == mask { print $1 }')
    [ -n "$(masks_of)" ] && [ "${count:-0}" = "$1" ]
}
no_binding() { with 'SystemCallFilter=~sched_setaffinity'; }

# A program of Alice's that closes all descriptors, one by one or at once, and uses their numbers for
# files of its own: its processors are shared all the same, Bob's program has what is its own, and
# nothing is written to those files.
closes() { closed; harmless $?; }
closed() {
    local how
    for how in close close-range reuse; do
        team alice c1 3000 "$how"
        within 20 has c1 4 || { say "$how: it has $(size c1)"; cat /tmp/c1.out; status; return 1; }
        team bob b1 3000
        within 20 knows b1 && within 30 shares b1 || { say "$how: Bob has $(size b1)"; status; return 1; }
        pkill -KILL -u bob -x team
        kill -0 "$(pid c1)" || { say "$how: it is dead"; cat /tmp/c1.log /tmp/c1.out; return 1; }
        grep -q harmed /tmp/c1.log && { say "$how: something was written to its files"; return 1; }
        team alice a1 3000
        within 20 knows a1 && within 30 shares a1 || { say "$how: Alice's other one has $(size a1)"; status; return 1; }
        end_all
    done
    say "close, close_range and numbers used again: shared, nothing touched"
}
# It has some processors, and not all, for three seconds: the other one is attached, or, where its
# threads run all the time, a stranger to which some are left.
shares() {
    local i
    for i in 1 2 3; do
        sleep 1
        case $(size "$1") in 1 | 2 | 3) ;; *) return 1 ;; esac
    done
}
# The manager attaches nothing by itself, and takes no notice of strangers.
unnoticed() { run_with=--no-attach; ignore_strangers; }
noticed() { run_with=; heed_strangers; end_all; }

# --- disks

# The directories of the manager on a file system that is full. Programs are managed all the same;
# what it was told is written when there is room again, without another word, and the next manager
# knows it.
gives_room=yes
full() { filled; local code=$?; unfill; return "$code"; }
filled() {
    systemctl stop cpumgr.socket cpumgr.service
    local owner; owner="uid=$(id -u cpumgr),gid=$(id -g cpumgr)"
    mount -t tmpfs -o "size=512k,mode=755,$owner" tmpfs /run/cpumgr || return 1
    mount -t tmpfs -o "size=16m,mode=700,$owner" tmpfs /var/lib/cpumgr || return 1
    local since; since=$(date '+%Y-%m-%d %H:%M:%S')
    start_units || { say "it does not start"; return 1; }
    dd if=/dev/zero of=/run/cpumgr/fill bs=1k 2> /dev/null
    dd if=/dev/zero of=/var/lib/cpumgr/fill bs=1k 2> /dev/null
    dd if=/dev/zero of=/run/cpumgr/more bs=1k count=1 2> /dev/null && { say "it is not full"; return 1; }
    team alice a1 3000
    within 20 has a1 4 || { say "Alice has $(size a1)"; status; return 1; }
    team bob b1 3000
    within 20 has a1 2 && within 20 has b1 2 || { say "$(size a1) and $(size b1)"; status; return 1; }
    # The second one is said to be lost in any case: that of the first was tried by then.
    cpumgr mpl 6 2> /dev/null; sleep 1
    cpumgr mpl 7 2> /tmp/said || return 1
    grep -q 'lost if manager' /tmp/said || { say "it does not say that it is lost"; return 1; }
    [ "$gives_room" = no ] || rm /run/cpumgr/fill /run/cpumgr/more /var/lib/cpumgr/fill
    within 30 nothing_unkept || { say "not written:"; status | grep -o '"unkept":[^]]*'; return 1; }
    local old said; old=$(manager)
    said=$(journalctl -q --no-pager -u cpumgr -o cat --since "$since" | grep -c 'will not know all')
    [ "$said" = 1 ] || { say "the log says it $said times"; return 1; }
    kill -9 "$old"
    within 30 adopted "$old" || { say "not adopted"; return 1; }
    [ "$(cpumgr mpl)" = 7 ] || { say "the next one has mpl $(cpumgr mpl)"; return 1; }
    end_all
    say "2 and 2 on a full disk, written when there was room, said once"
}
nothing_unkept() { status | grep -q '"unkept":\[\]'; }
unfill() {
    systemctl stop cpumgr.socket cpumgr.service
    pkill -KILL -x team
    umount /run/cpumgr /var/lib/cpumgr
    systemctl reset-failed cpumgr.service
    start_units
}
no_room() { gives_room=no; }
room() { gives_room=yes; }

# Each file that the manager reads at its start, with five kinds of garbage in it: it starts, says so
# at most once (what is empty or cut off may be nothing to speak of), and manages.
garbled() { garbled_all; local code=$?; end_all; return "$code"; }
garbled_all() {
    local file kind lines since count=0
    team alice a1 3000
    within 20 knows a1 && within 20 has a1 4 || { status; return 1; }
    cp /run/cpumgr/app.sock.settings /tmp/app.sock.settings || return 1
    printf '[{"pid":1,"start":1,"owner":0,"fence":"0-3","threads":[[1,"0-3","0-1"]]}]' > /tmp/app.sock.masks
    systemctl stop cpumgr.service; pkill -KILL -x team
    cp /var/lib/cpumgr/history.redb /tmp/history.redb || return 1
    for file in /run/cpumgr/app.sock.settings /run/cpumgr/app.sock.masks /var/lib/cpumgr/history.redb; do
        for kind in nothing cut noise text nested; do
            systemctl stop cpumgr.service
            garbage "$kind" "/tmp/${file##*/}" > "$file"
            chown cpumgr:cpumgr "$file"; chmod 600 "$file"
            since=$(journalctl -q --no-pager -u cpumgr -o cat | wc -l)
            systemctl start cpumgr.service || { say "$file, $kind: it does not start"; return 1; }
            within 20 systemctl -q is-active cpumgr.service || return 1
            as alice timeout 60 cpumgr run -- /bin/true > /tmp/said 2>&1 && [ ! -s /tmp/said ] \
                || { say "$file, $kind: $(cat /tmp/said)"; return 1; }
            case $kind in
                nothing | cut) ;;
                *) within 20 is_spoken_of "${file##*/}" "$since" ;;
            esac
            lines=$(spoken_of "${file##*/}" "$since")
            case $kind in
                nothing | cut) [ "$lines" -le 1 ] ;;
                *) [ "$lines" = 1 ] ;;
            esac || {
                say "$file, $kind: the log says it $lines times"
                journalctl -q --no-pager -u cpumgr -o cat | tail -n "+$((since + 1))"
                return 1
            }
            count=$((count + 1))
        done
        team alice a1 3000
        within 20 knows a1 && within 20 has a1 4 || { say "after $file: $(size a1)"; status; return 1; }
        end_all
    done
    say "$count files of garbage, each said once"
}
# Lines of the log that name a file, or a panic, since that many lines.
spoken_of() {
    journalctl -q --no-pager -u cpumgr -o cat | tail -n "+$(($2 + 1))" | grep -c "$1\|panicked"
}
is_spoken_of() { [ "$(spoken_of "$@")" -ge 1 ]; }
garbage() {
    case $1 in
        nothing) ;;
        cut) head -c $(($(stat -c %s "$2") / 2)) "$2" ;;
        noise) head -c 5000 /dev/urandom ;;
        text) printf 'this is no file of a manager\n' ;;
        nested) head -c 100000 /dev/zero | tr '\0' '[' ;;
    esac
}
# A service that begins with nothing but what is well formed.
is_strict() { with 'ExecStartPre=/bin/sh -c "[ ! -s /run/cpumgr/app.sock.settings ] || head -c 1 /run/cpumgr/app.sock.settings | grep -q {"'; }
no_garbage() { rm -f /run/cpumgr/app.sock.settings /run/cpumgr/app.sock.masks /var/lib/cpumgr/history.redb; without; }

# A directory that never answers (`stuck.c`), where the kernel has FUSE; else pipes that nothing
# writes to. Neither a trace there nor a configuration that leads there holds the service up.
stuck() { is_stuck; local code=$?; unstick; end_all; return "$code"; }
is_stuck() {
    local kind=FUSE old
    team alice a1 3000
    within 20 knows a1 && within 20 has a1 4 || { status; return 1; }
    old=$(manager)
    mkdir -p /srv/stuck /etc/cpumgr/cpumgr.toml.d
    /opt/stuck /srv/stuck > /tmp/stuck.out 2>&1 &
    within 5 grep -q stuck /tmp/stuck.out
    if ! grep -qx stuck /tmp/stuck.out; then
        kind='pipes, without FUSE'
        mkfifo /srv/stuck/trace /srv/stuck/config.toml
    fi
    /opt/hostile traces 1 > /tmp/hostile.out 2>&1 || { say "no trace was asked for: $(cat /tmp/hostile.out)"; return 1; }
    [ "$stops" = no ] || kill -STOP "$old"
    bystanders trace || return 1
    ln -s /srv/stuck/config.toml /etc/cpumgr/cpumgr.toml.d/stuck.toml
    timeout -k 1 10 cpumgr reload > /tmp/said 2>&1 && { say "it was reloaded with what does not answer"; return 1; }
    bystanders reload || return 1
    team bob b1 3000
    within 20 has a1 2 && within 20 has b1 2 || { say "$(size a1) and $(size b1)"; status; return 1; }
    [ "$(manager)" = "$old" ] || { say "the manager is another one"; return 1; }
    say "$kind: same manager, all are answered"
}
unstick() {
    pkill -KILL -x stuck
    umount -l /srv/stuck 2> /dev/null
    rm -rf /srv/stuck /etc/cpumgr/cpumgr.toml.d
    systemctl kill -s CONT cpumgr.service
    systemctl restart cpumgr.service
}
stops=no
it_stops() { stops=yes; with WatchdogSec=0; }
it_runs() { stops=no; systemctl kill -s KILL cpumgr.service; without; }

# The page and the metrics. With `listen` alone the log says once which drop-in is missing, and all
# else goes on; with it each user of the machine reads them, and the service is closed enough still.
listens() { listened; local code=$?; closed_again; return "$code"; }
listened() {
    local since place
    since=$(journalctl -q --no-pager -u cpumgr -o cat | wc -l)
    mkdir -p /etc/cpumgr/cpumgr.toml.d /etc/systemd/system/cpumgr.service.d
    printf 'listen = "9477"\n' > /etc/cpumgr/cpumgr.toml.d/listen.toml
    systemctl restart cpumgr.service || return 1
    within 20 is_spoken_of listen.conf "$since" || { say "the log names no drop-in"; return 1; }
    team alice a1 3000
    within 20 has a1 4 || { say "without a page Alice has $(size a1)"; status; return 1; }
    [ "$(spoken_of listen.conf "$since")" = 1 ] || { say "the log says it more than once"; return 1; }
    "$open"
    systemctl daemon-reload; systemctl restart cpumgr.service || return 1
    within 20 fetched /metrics '^cpumgr_programs 1' || { say "no metrics: $(fetch /metrics)"; return 1; }
    for place in '/ <title>cpumgr' '/status.json "name":"team"'; do
        fetched "${place% *}" "${place#* }" || { say "$place: $(fetch "${place% *}")"; return 1; }
    done
    local exposure; exposure=$(systemd-analyze security --threshold=25 cpumgr.service) \
        || { tail -n 1 <<< "$exposure"; return 1; }
    has a1 4 || within 20 has a1 4 || { say "with a page Alice has $(size a1)"; return 1; }
    exposure=$(tail -n 1 <<< "$exposure")
    say "page, metrics and status read by Bob, exposure ${exposure##*: }"
}
fetch() {
    # shellcheck disable=SC2016
    as bob timeout 20 bash -c 'exec 3<> /dev/tcp/127.0.0.1/9477
        printf "GET %s HTTP/1.0\r\n\r\n" "$1" >&3; cat <&3' fetch "$1"
}
fetched() { fetch "$1" | grep -q "$2"; }
closed_again() {
    rm -rf /etc/cpumgr/cpumgr.toml.d/listen.toml /etc/systemd/system/cpumgr.service.d
    without
}
opens() {
    cp /usr/share/doc/cpumgr/examples/listen.conf /etc/systemd/system/cpumgr.service.d/ \
        || cp /opt/listen.conf /etc/systemd/system/cpumgr.service.d/
}
open=opens
stays_closed() { open=:; }
is_opened() { open=opens; }

# The service has a /tmp of its own: a trace for it is refused, with a directory that works.
traced() {
    rm -f /tmp/trace /var/lib/cpumgr/trace
    cpumgr trace start /tmp/trace > /tmp/said 2>&1 && { say "it is written somewhere"; cpumgr trace stop; return 1; }
    grep -q 'another directory for the manager than for you' /tmp/said && grep -q /var/lib/cpumgr /tmp/said \
        || { cat /tmp/said; return 1; }
    [ -z "$(find / -xdev -path '*/tmp/trace' 2> /dev/null)" ] || { say "there is one"; return 1; }
    cpumgr trace start /var/lib/cpumgr/trace || return 1
    [ "$(cpumgr trace show)" = /var/lib/cpumgr/trace ] || return 1
    as alice cpumgr run -- /opt/team 1 /tmp/traced.log || return 1
    cpumgr trace stop || return 1
    within 10 grep -q '"stop"' /var/lib/cpumgr/trace || return 1
    grep -q '"arrival"' /var/lib/cpumgr/trace || { cat /var/lib/cpumgr/trace; return 1; }
    rm /var/lib/cpumgr/trace
}
one_tmp() { with PrivateTmp=no ReadWritePaths=/tmp; }
two_tmps() { rm -f /tmp/trace /var/lib/cpumgr/trace; without; }

# Ends what a check began, however it went.
harmless() { pkill -KILL -u bob -f /opt/hostile; end_all; return "$1"; }

programs() { status | grep -o '"program_count":[0-9]*' | cut -d: -f2; }
one_program() { [ "$(programs)" = 1 ]; }

# The file of the history and how it begins; it grows while programs run.
history_file() { stat -c %i /var/lib/cpumgr/history.redb; head -c 9 /var/lib/cpumgr/history.redb | od -An -tx1; }

# What reports say of a program that lies about itself, and what the manager writes where Bob put a
# link: neither holds a reader up, nor reaches its terminal, nor another file.
lies() { told_lies; harmless $?; }
told_lies() {
    local outcome=0 before
    team alice a1 3000
    within 20 has a1 4 && within 20 knows a1 || return 1
    as bob /opt/hostile masks-itself 40 > /tmp/hostile.out 2>&1 &
    local bobs=$!
    within 10 two_programs || { say "Bob's program is not there"; status; return 1; }
    local verb
    for verb in status 'status --json' policy queue metrics list; do
        # shellcheck disable=SC2086
        timeout 20 cpumgr $verb > /tmp/said 2>&1 || { say "cpumgr $verb: $(cat /tmp/said)"; outcome=1; }
        grep -q "$(printf '[\033\r]')" /tmp/said && { say "cpumgr $verb has control characters"; outcome=1; }
    done
    journalctl -q --no-pager -a -u cpumgr -o cat | grep -q "$(printf '\033')\[2J" && { say "the journal has them"; outcome=1; }
    pkill -KILL -u bob -f /opt/hostile; wait "$bobs" 2> /dev/null
    # The manager may write its own files, and Bob names one of them.
    install -d -o bob -g bob /srv/bob
    before=$(history_file)
    as bob ln -sf /var/lib/cpumgr/history.redb /srv/bob/trace
    cpumgr trace start /srv/bob/trace > /tmp/said 2>&1 && { say "a trace follows Bob's link"; outcome=1; cpumgr trace stop; }
    [ "$(history_file)" = "$before" ] || { say "the history is another file"; outcome=1; }
    # A runtime directory that is Bob's, and libraries beside it.
    as bob sh -c 'mkdir -p -m 777 /tmp/runtime/cpumgr /tmp/shim && cp /bin/true /tmp/shim/libgomp.so.1'
    as alice env XDG_RUNTIME_DIR=/tmp/runtime cpumgr run -- /bin/true > /tmp/said 2>&1 || outcome=1
    [ ! -s /tmp/said ] || { cat /tmp/said; outcome=1; }
    [ -z "$(find /tmp/runtime /tmp/shim -user alice)" ] || { say "Alice writes into Bob's directory"; outcome=1; }
    rm -rf /tmp/runtime /tmp/shim /srv/bob
    within 20 one_program && knows a1 && within 20 has a1 4 || { status; outcome=1; }
    return "$outcome"
}
# A reader that hands a program's name on as it is.
raw_reader() {
    mkdir -p /opt/raw
    printf '%s\n' '#!/bin/sh' '/usr/bin/cpumgr "$@"; code=$?; printf "\033[2J"; exit $code' > /opt/raw/cpumgr
    chmod 755 /opt/raw/cpumgr; PATH=/opt/raw:$PATH
}
no_raw_reader() { PATH=${PATH#/opt/raw:}; }
two_programs() { [ "$(programs)" = 2 ]; }

# Bob's programs are killed at each step of their registration, and the manager between them.
storm() { stormed; harmless $?; }
stormed() {
    team alice a1 3000
    within 20 has a1 4 && within 20 knows a1 || return 1
    as bob /opt/hostile dies 30 > /tmp/hostile.out 2>&1 &
    local bobs=$! round old
    for round in 1 2 3; do
        sleep 3
        old=$(manager)
        kill -9 "$old"
        within 20 known_by_another "$old" || { say "kill $round: not adopted"; return 1; }
        within 5 grown a1 2 || { say "kill $round: Alice has $(size a1)"; return 1; }
    done
    wait "$bobs" || { cat /tmp/hostile.out; return 1; }
    within 20 one_program || { status; return 1; }
    within 20 has a1 4 && kill -0 "$(pid a1)" || { say "Alice has $(size a1)"; return 1; }
    say "3 kills of the manager beside $(cut -d' ' -f2 /tmp/hostile.out) of Bob's programs: none of Alice's lost"
}
known_by_another() { [ "$(manager)" != "$1" ] && [ "$(manager)" != 0 ] && knows a1; }
one_start() { with '[Unit]' StartLimitIntervalSec=600 StartLimitBurst=1; }

# --- restarts

# What asks the manager in a loop here, and dpkg, are strangers to which programs leave processors
# (D9): their load is no part of what a restart costs.
ignore_strangers() {
    mkdir -p /etc/cpumgr/cpumgr.toml.d
    printf 'strangers = "ignore"\n' > /etc/cpumgr/cpumgr.toml.d/strangers.toml
    systemctl restart cpumgr.service
    within 20 systemctl -q is-active cpumgr.service
}
heed_strangers() {
    rm -r /etc/cpumgr/cpumgr.toml.d
    systemctl restart cpumgr.service
    within 20 systemctl -q is-active cpumgr.service
}
apart() { ignore_strangers; "$@"; local code=$?; heed_strangers; return "$code"; }
two_teams() {
    team alice a1 3000
    team bob b1 3000
    within 30 has a1 2 && within 30 has b1 2 || { status; return 1; }
    within 10 knows a1 && within 10 knows b1 || return 1
    # How long teams are smaller without any restart: on a busy machine the guest's processors wait
    # for real ones, and threads do not leave in time.
    local from; from=$(monotonic)
    sleep 4
    before=$(printf '%d\n' "$(shrunken a1 "$from" 2)" "$(shrunken b1 "$from" 2)" | sort -n | tail -n 1)
}
adopted() { [ "$(manager)" != "$1" ] && [ "$(manager)" != 0 ] && knows a1 && knows b1; }
after_restart() {
    local old=$1 from=$2
    within 30 adopted "$old" || { journalctl -q --no-pager -u cpumgr -n 30; return 1; }
    local back; back=$(($(monotonic) - from))
    within 20 has a1 2 && within 20 has b1 2 || { status; return 1; }
    sleep 2
    kill -0 "$(pid a1)" && kill -0 "$(pid b1)" || { say "a program is lost"; return 1; }
    local a b; a=$(shrunken a1 "$from" 2); b=$(shrunken b1 "$from" 2)
    end_all
    if [ "$before" -ge 50 ] && { [ "$a" -ge 100 ] || [ "$b" -ge 100 ]; }; then
        say "none lost; shrunken for $a and $b ms, and for $before ms without a restart"
        return 77
    fi
    # When the next manager was started; what it costs to see it here is no part of that.
    local began; began=$(($(systemctl show -P ExecMainStartTimestampMonotonic cpumgr.service) / 1000 - from))
    [ "$began" -lt 4000 ] || { say "the next manager began after $began ms"; return 1; }
    [ "$a" -lt 100 ] && [ "$b" -lt 100 ] || {
        say "shrunken for $a and $b ms, both known again after $back ms"
        for team in a1 b1; do
            echo "sizes of $team by ms: $(awk -v from="$from" 'NF == 2 { printf "%d:%s ", $1 - from, $2 }' \
                "/tmp/$team.log" | tail -c 300)"
        done
        journalctl -q --no-pager -u cpumgr -n 12 -o short-monotonic
        return 1
    }
    say "shrunken for $a and $b ms ($before without a restart), the next manager began after $began ms, both known again after $back ms, none lost"
}
killed() {
    two_teams || return 1
    local old from; old=$(manager); from=$(monotonic)
    kill -9 "$old"
    after_restart "$old" "$from"
}
restarted() {
    two_teams || return 1
    local old from; old=$(manager); from=$(monotonic)
    systemctl restart cpumgr.service || return 1
    after_restart "$old" "$from"
}
late_restart() { with RestartSec=5; }
slow_start() { with 'ExecStartPre=/bin/sleep 5'; }
no_watchdog() { with WatchdogSec=0; }
to_a_file() { with StandardError=file:/run/cpumgr/plant.log; }
hangs() {
    local old; old=$(manager)
    kill -STOP "$old"
    within 60 moved_on "$old" || { systemctl status cpumgr.service; return 1; }
    journalctl -q --no-pager -u cpumgr -o cat | grep -qi watchdog
}
moved_on() { [ "$(manager)" != "$1" ] && [ "$(manager)" != 0 ] && systemctl -q is-active cpumgr.service; }

activates() {
    systemctl stop cpumgr.service || return 1
    [ "$(manager)" = 0 ] || return 1
    [ -S /run/cpumgr/app.sock ] || { say "the socket has gone with the service"; return 1; }
    # The first program wakes the manager, and is taken in however long that takes.
    team alice act 3000
    within 30 systemctl -q is-active cpumgr.service || return 1
    within 20 knows act && within 20 has act 4 || { status; return 1; }
    end_all
}
journal() {
    team alice a1 3000
    within 20 grown a1 1 && within 20 knows a1 || return 1
    local p; p=$(pid a1)
    within 10 journal_has "$p" || { journalctl -q --no-pager -u cpumgr -n 20 -o verbose; return 1; }
    end_all
    say "CPUMGR_PID=$p found"
}
journal_has() { journalctl -q --no-pager "CPUMGR_PID=$1" -o cat | grep -q 'a program arrives'; }

# --- attached

masks() {
    as alice taskset -c 0-2 sleep 3000 > /dev/null 2>&1 &
    within 10 pgrep -u alice -x sleep || return 1
    local p; p=$(pgrep -u alice -x sleep)
    as alice cpumgr attach "$p" || return 1
    # It is there before what follows ends it: a process of one thread is bound without it, too.
    team bob b1 3000; within 20 knows b1 || return 1
    within 20 bound "$p" || { say "not bound: $(mask "$p")"; return 1; }
    "$@" || return 1
    within 20 unbound "$p" || { say "the mask is $(mask "$p")"; return 1; }
    kill "$p"; end_all
}
mask() { awk '$1 == "Cpus_allowed_list:" { print $2 }' "/proc/$1/status"; }
bound() { [ "$(mask "$1")" != 0-2 ]; }
unbound() { [ "$(mask "$1")" = 0-2 ]; }
stops() { alone_and_bound || return 1; systemctl stop cpumgr.service; }
started_again() { "$@"; local code=$?; systemctl start cpumgr.service; return "$code"; }
# No program is left that would wake the next manager by the socket: the service's own end puts the
# masks back.
alone_and_bound() {
    pkill -KILL -x team; within 20 forgotten b1 || return 1
    bound "$p" || { say "it is not bound any more"; return 1; }
}
crashes_for_good() {
    # No restart comes, either.
    alone_and_bound || return 1
    mkdir -p /run/systemd/system/cpumgr.service.d
    printf '[Service]\nRestart=no\n' > /run/systemd/system/cpumgr.service.d/for-good.conf
    systemctl daemon-reload
    kill -9 "$(manager)"
    within 20 is_dead || { systemctl status cpumgr.service; return 1; }
    local outcome=0
    within 10 unbound "$p" || { say "the mask is $(mask "$p")"; outcome=1; }
    [ "$(manager)" = 0 ] || { say "another manager began"; outcome=1; }
    rm /run/systemd/system/cpumgr.service.d/for-good.conf
    systemctl daemon-reload; systemctl reset-failed cpumgr.service
    return "$outcome"
}
forgotten() { ! knows "$1"; }
is_dead() { [ "$(systemctl show -P ActiveState cpumgr.service)" = failed ]; }
killed_by_stop() { with KillSignal=SIGKILL ExecStopPost=; }
notes_removed() { with ExecStopPost= 'ExecStopPost=/bin/rm -f /run/cpumgr/app.sock.masks'; }
and_no_sleepers() { pkill -u alice -x sleep; without; }

# --- fences

fenced() {
    mkdir -p /etc/systemd/system/cpumgr.service.d
    cp /usr/share/doc/cpumgr/examples/fence.conf /etc/systemd/system/cpumgr.service.d/ \
        || cp /opt/fence.conf /etc/systemd/system/cpumgr.service.d/
    systemctl daemon-reload; systemctl restart cpumgr.service || return 1
    within 10 systemctl -q is-active cpumgr.service || { journalctl -q --no-pager -u cpumgr -n 20; return 1; }
    systemd-analyze security --threshold=25 cpumgr.service > /dev/null || return 1
    team alice d1 3000 defy
    within 30 has d1 4 || return 1
    team bob b1 3000
    within 20 has b1 2 || return 1
    within 30 is_fenced d1 || { journalctl -q --no-pager -u cpumgr -n 20; cat "/proc/$(pid d1)/cgroup"; return 1; }
    local group cpus task
    group=/sys/fs/cgroup$(cut -d: -f3 "/proc/$(pid d1)/cgroup")
    cpus=$(cat "$group/cpuset.cpus.effective")
    for task in "/proc/$(pid d1)"/task/*; do
        mask=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' "$task/status")
        [ "$mask" != 0-3 ] || { say "$task runs on $mask"; return 1; }
    done
    [ "$cpus" != 0-3 ] || { say "the fence is $cpus"; return 1; }
    # The manager's end opens it, and the program lives on.
    systemctl stop cpumgr.service
    kill -0 "$(pid d1)" || { say "the program is dead"; return 1; }
    is_fenced d1 && { say "still fenced in"; return 1; }
    rm -r /etc/systemd/system/cpumgr.service.d
    systemctl daemon-reload; systemctl start cpumgr.service; end_all
    say "fenced into $cpus"
}
no_fence() {
    mv /opt/fence.conf /opt/fence.away
    rm -f /usr/share/doc/cpumgr/examples/fence.conf
}
fence_again() {
    mv /opt/fence.away /opt/fence.conf
    rm -rf /etc/systemd/system/cpumgr.service.d; without
}
is_fenced() { grep -q '/cpumgr/nanos-program-' "/proc/$(pid "$1")/cgroup"; }

# --- the package's end

upgrades() {
    # A configuration of the administrator's, which the upgrade has to keep.
    printf 'quantum = "40ms"\n' > /etc/cpumgr/cpumgr.toml
    cpumgr reload || return 1
    two_teams || return 1
    # What unpacking alone does to teams, without a restart: it loads the machine for a minute.
    local from; from=$(monotonic)
    dpkg-deb -x /opt/cpumgr_2.deb /tmp/unpacked || return 1
    local unpacking quiet=$before; unpacking=$(($(monotonic) - from))
    before=$(printf '%d\n' "$(shrunken a1 "$from" 2)" "$(shrunken b1 "$from" 2)" | sort -n | tail -n 1)
    rm -rf /tmp/unpacked
    say "quiet: shrunken for $quiet ms in 4 s; beside dpkg-deb -x: for $before ms in $unpacking ms"
    local old; old=$(manager)
    dpkg --force-confold -i /opt/cpumgr_2.deb || return 1
    # From the end of the old manager on: that is the restart, all before it is unpacking.
    from=$(($(systemctl show -P ActiveExitTimestampMonotonic cpumgr.service) / 1000))
    [ "$(dpkg-query -f '${Version}' -W cpumgr)" = "$(cat /opt/version_2)" ] || return 1
    [ "$(cat /etc/cpumgr/cpumgr.toml)" = 'quantum = "40ms"' ] || { say "the conffile is another one"; return 1; }
    local code=0
    after_restart "$old" "$from" || code=$?
    [ "$(cpumgr set quantum)" = 40ms ] || { say "another quantum"; return 1; }
    return "$code"
}
wrong_version() { cp /opt/version_2 /opt/version_right; echo 0 > /opt/version_2; }
right_version() { mv /opt/version_right /opt/version_2; end_all; }
empty_postrm() { : > /var/lib/dpkg/info/cpumgr.postrm; }
install_again() {
    pkill -KILL -x team
    rm -rf /run/cpumgr /var/lib/cpumgr /etc/cpumgr
    systemctl daemon-reload
    dpkg --force-confmiss -i "/opt/cpumgr_${1:-2}.deb"
    within 20 systemctl -q is-active cpumgr.service
}
# Where others come after it, the package is there again for them, and can be upgraded.
last() { "$@"; local code=$?; [ "$part" = all ] || install_again 1; return "$code"; }
removes() {
    team alice a1 3000
    within 20 has a1 4 || return 1
    dpkg -r cpumgr || return 1
    systemctl -q is-active cpumgr.service cpumgr.socket && { say "it runs"; return 1; }
    [ ! -e /usr/bin/cpumgr ] && [ ! -S /run/cpumgr/app.sock ] && [ -e /etc/cpumgr/cpumgr.toml ] || return 1
    kill -0 "$(pid a1)" || { say "the program is dead"; return 1; }
    dpkg -P cpumgr || return 1
    [ ! -e /etc/cpumgr ] && [ ! -e /run/cpumgr ] && [ ! -e /var/lib/cpumgr ] || { ls -l /etc/cpumgr /run/cpumgr; return 1; }
    systemctl daemon-reload
    systemctl cat cpumgr.service > /dev/null 2>&1 && { say "the unit is there"; return 1; }
    pkill -KILL -x team; true
}

cd /
useradd -m -u 1000 alice; useradd -m -u 1001 bob
echo "@up $(nproc) processors, $(uname -r), systemd $(systemctl --version | awk 'NR == 1 { print $2 }'), $(stat -fc %T /sys/fs/cgroup)"
check package-installs installs
planted package-installs mask_units unmask_units installs
# All others, in their order; where there may be no time for all of them, each time another one is the
# first, and those before it come last.
others() {
    check three-commands three_commands
    planted three-commands stop_units start_units three_commands
    check hardened hardened
    check hardened-is-seen fails_with loosen without hardened
    check lower-rung lower_rung
    planted lower-rung upper_rung rung_again lower_rung
    check sizes-follow sizes
    planted sizes-follow one_processor unconfigured sizes
    check group-administers administers
    planted group-administers no_group group_again administers
    check reload reloads
    planted reload reload_nothing without reloads
    check no-signals signals
    planted no-signals bob_administers bob_does_not signals
    check no-reading reads
    check no-reading-is-seen fails_with open_files close_files reads
    check no-starving starves
    planted no-starving heavy_bob unconfigured starves
    check no-spoofing spoofs
    check no-spoofing-is-seen fails_with open_directory close_directory spoofs
    check no-flooding floods
    planted no-flooding few_descriptors without floods
    check flood-costs costs
    planted flood-costs with_hogs no_hogs costs
    check sleepers sleepers
    planted sleepers they_work they_sleep sleepers
    check closeall closes
    planted closeall unnoticed noticed closes
    check many-threads many
    planted many-threads no_binding without many
    check full-disk full
    planted full-disk no_room room full
    check garbled-state garbled
    planted garbled-state is_strict no_garbage garbled
    check stuck-files stuck
    planted stuck-files it_stops it_runs stuck
    check listens listens
    planted listens stays_closed is_opened listens
    check trace-place traced
    planted trace-place one_tmp two_tmps traced
    check no-lying lies
    planted no-lying raw_reader no_raw_reader lies
    check kill-storm storm
    planted kill-storm one_start without storm
    check kill-adopts apart killed
    planted kill-adopts late_restart without apart killed
    check restart-adopts apart restarted
    planted restart-adopts slow_start without apart restarted
    check watchdog hangs
    planted watchdog no_watchdog without hangs
    check socket-activates activates
    planted socket-activates stop_units start_units activates
    check journal-fields journal
    planted journal-fields to_a_file without journal
    check stop-restores-masks started_again masks stops
    planted stop-restores-masks killed_by_stop and_no_sleepers masks stops
    check crash-restores-masks started_again masks crashes_for_good
    planted crash-restores-masks notes_removed and_no_sleepers masks crashes_for_good
    check fence-v2 fenced
    planted fence-v2 no_fence fence_again fenced
    check upgrade-adopts apart upgrades
    planted upgrade-adopts wrong_version right_version apart upgrades
    planted remove-and-purge empty_postrm install_again removes
    check remove-and-purge last removes
}
part=count others
if [ "$first" = 0 ]; then
    others
else
    first=$((first % places))
    place=0 part=from others
    place=0 part=before others
fi
echo "@RESULT checks=$checks failed=$failed"
sync
if [ "$failed" = 0 ]; then /opt/qexit 42; else /opt/qexit 43; fi
