#!/bin/bash
# sge.sh - a real Grid Engine on this machine for a test: `sge_up SLOTS`, `sge_down`; after helper.sh.
#
# sge_qmaster and one sge_execd with spool and cell in $work/sge, without systemd. They listen on all addresses, so a test
# runs itself in a network namespace that has loopback only: `sge_alone "$0"`. They end by their process ids.
# shellcheck shell=bash
has_sge () { [ -x /usr/lib/gridengine/sge_qmaster ] && [ -x /usr/lib/gridengine/sge_execd ] && unshare -n true 2>/dev/null; }
sge_alone () # test: runs it again, in the namespace
{
    [ -z "$WM_SGE_ALONE" ] || { ip link set lo up; return; }
    WM_SGE_ALONE=1 exec unshare -n bash "$1"
}
sge_up () # slots
{
    local s=$work/sge share=/usr/share/gridengine lib=/usr/lib/gridengine
    mkdir -p "$s/default/common" "$s/spool/qmaster" "$s/spool/exec" "$s/spool/db" && ln -s $share/util "$s/util"
    sed -e "s|^admin_user.*|admin_user none|; s|^spooling_params.*|spooling_params $s/spool/db|" \
        -e "s|^qmaster_spool_dir.*|qmaster_spool_dir $s/spool/qmaster|" $share/default-bootstrap >"$s/default/common/bootstrap"
    sed -e "s|^execd_spool_dir.*|execd_spool_dir $s/spool/exec|; s|^min_uid.*|min_uid 0|; s|^min_gid.*|min_gid 0|" \
        -e "s|^gid_range.*|gid_range 50000-50100|" $share/default-configuration >"$s/configuration"
    echo localhost >"$s/default/common/act_qmaster"
    echo "localhost $(hostname)" >"$s/default/common/host_aliases"
    export SGE_ROOT=$s SGE_CELL=default SGE_QMASTER_PORT=$port SGE_EXECD_PORT=$((port + 1)) SGE_ND=1
    {
        $lib/spoolinit berkeleydb libspoolb "$s/spool/db" init && $lib/spooldefaults configuration "$s/configuration" &&
            $lib/spooldefaults complexes $share/util/resources/centry &&
            $lib/spooldefaults usersets $share/util/resources/usersets && $lib/spooldefaults managers "$(id -un)"
    } >"$s/init.out" 2>&1 || { cat "$s/init.out"; return 1; }
    $lib/sge_qmaster >"$s/qmaster.out" 2>&1 &
    sge_pids=($!)
    until_true 60 qconf -sh || { cat "$s/qmaster.out"; return 1; }
    qconf -ssconf | sed 's/^schedule_interval.*/schedule_interval 0:0:1/; s/^flush_submit_sec.*/flush_submit_sec 1/
        s/^flush_finish_sec.*/flush_finish_sec 1/; s/^job_load_adjustments.*/job_load_adjustments NONE/' >"$s/schedule"
    # qconf takes its own templates from an editor, if that wrote them in a later second.
    printf '#!/bin/sh\nsleep 1.1; sed -i "s/^pe_list.*/pe_list smp/; s/^load_thresholds.*/load_thresholds NONE/" "$1"\n' >"$s/editor" && chmod +x "$s/editor"
    export EDITOR=$s/editor
    qconf -ap smp && qconf -aq all.q || return 1
    qconf -as localhost
    qconf -Msconf "$s/schedule" && qconf -mattr queue slots "$1" all.q && qconf -mattr queue hostlist localhost all.q &&
        qconf -mattr queue notify 0:0:30 all.q && qconf -mattr pe slots 99 smp || return 1
    $lib/sge_execd >"$s/execd.out" 2>&1 &
    sge_pids+=($!)
    sge_has_node () { qhost | grep -q 'localhost.*lx'; }
    until_true 60 sge_has_node || { cat "$s/execd.out"; return 1; }
}
sge_down ()
{
    qdel -u "$(id -un)" >/dev/null 2>&1
    until_true 60 test -z "$(qstat)"
    kill "${sge_pids[@]}" 2>/dev/null
}
