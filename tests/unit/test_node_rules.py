"""Recorded facts and the findings they deserve: a new recording is a new test."""

from pathlib import Path

import msgspec
import pytest

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.checks.kernel import KERNEL_CHECKS
from slurm_resilience.node.facts import from_json, to_json
from slurm_resilience.node.findings import Severity, worst
from slurm_resilience.node.rules import RULES, judge
from slurm_resilience.node.settings import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
    NodeSettings,
)

RECORDED = Path(__file__).parents[1] / "facts"

SETTINGS = NodeSettings(
    expect=Expectations(
        gpus=2,
        links={"mlx5_0:1": LinkExpectation(rate_gbps=400), "eth0": LinkExpectation()},
        disks={"/tmp": DiskExpectation(), "/scratch": DiskExpectation(mounted=True)},
        memory_mib=1_000_000,
        services=("nvidia-fabricmanager",),
        modules=("nvidia-peermem",),
    )
)

FINDINGS: dict[str, list[str]] = {
    "h100_healthy": [],
    "h100_row_remap_failed": ["drain row-remap-failed gpu1"],
    "h100_row_remap_pending": ["drain-when-idle row-remap-pending gpu1"],
    "h100_ecc_uncorrected": ["drain-when-idle ecc-uncorrected gpu1"],
    "h100_ecc_aggregate_only": ["warn ecc-uncorrected-lifetime gpu1"],
    "h100_gpu_lost": ["drain gpu-lost gpu1"],
    "h100_gpu_lost_after_its_handle": ["drain gpu-lost gpu1"],
    "h100_gpu_missing": ["drain gpu-missing node"],
    "h100_answers_nothing": ["drain gpu-lost gpu1", "unknown unread gpu1"],
    "h100_without_permission": ["unknown unread gpu1"],
    "h100_without_its_power_cable": ["drain gpu-lost gpu1", "unknown unread gpu1"],
    "h100_answers_only_reset_required": ["drain-when-idle reset-required gpu1"],
    "h100_one_value_unread": ["unknown unread gpu1"],
    "h100_reset_required": [
        "drain-when-idle reset-required gpu1",
        "drain-when-idle recovery-action gpu1",
    ],
    "h100_reboot_asked": ["drain recovery-action gpu1"],
    "h100_ecc_storm": ["drain-when-idle ecc-storm gpu1"],
    "h100_ecc_corrected_often": ["warn ecc-storm gpu1"],
    "h100_ecc_corrected_177": [],
    "h100_ecc_counter_began_anew": [],
    "h100_ecc_corrected_very_many": ["warn ecc-corrected gpu1"],
    "h100_sram_uncorrected": [
        "drain-when-idle ecc-uncorrected gpu1",
        "warn ecc-uncorrected-lifetime gpu1",
    ],
    "h100_sram_uncorrected_few_and_repaired": ["warn ecc-uncorrected-lifetime gpu1"],
    "a100_row_remap_pending": ["drain-when-idle row-remap-pending gpu1"],
    "h100_bank_without_spare_rows": ["warn row-remap-exhausted gpu1"],
    "h100_rows_used_up": ["drain-when-idle row-remap-exhausted gpu1"],
    "h100_rows_nearly_used_up": [],
    "v100_retired_pages": [
        "drain-when-idle retired-pages gpu0",
        "drain-when-idle retired-pages gpu1",
        "drain-when-idle retired-pages gpu5",
        "drain-when-idle retired-pages gpu7",
        "drain-when-idle retired-pages-pending gpu1",
        "drain-when-idle retired-pages-pending gpu3",
        "drain-when-idle retired-pages-pending gpu5",
        "drain-when-idle retired-pages-pending gpu7",
    ],
    "v100_retired_pages_62": [],
    "v100_retired_double_bit": ["warn retired-pages gpu1"],
    "h100_ecc_switched_off": ["warn gpus-differ node"],
    "h100_nvlinks_went_down": ["drain-when-idle nvlink-down gpu1"],
    "h100_one_nvlink_went_down": ["warn nvlink-down gpu1"],
    "a100_nvlinks_inactive": [],
    "a100_mig_without_nvlinks": [],
    "h100_nvlink_crc_errors": ["warn nvlink-errors gpu1"],
    "h100_nvlink_crc_errors_few": [],
    "h100_nvlink_recovered": ["warn nvlink-errors gpu1"],
    "h100_fabric_in_progress": ["warn fabric-not-ready gpu1"],
    "h100_fabric_failed": ["warn fabric-not-ready gpu1"],
    "h100_fabric_degraded": ["warn fabric-not-ready gpu1"],
    "h100_pcie_without_fabric": [],
    "h100_pcie_x8_of_x16": ["warn gpu-pcie-narrow gpu1"],
    "h100_pcie_idle": [],
    "h100_pcie_slow_at_work": ["warn gpu-pcie-slow gpu1"],
    "h100_pcie_slow_for_a_moment": [],
    "h100_pcie_replays": ["warn gpu-pcie-replays gpu1"],
    "h100_pcie_replays_few": [],
    "h100_power_brake": ["warn gpu-throttled gpu1"],
    "h100_power_brake_lasting": ["drain-when-idle gpu-throttled gpu1"],
    "h100_thermal_slowdown_lasting": [
        "drain-when-idle gpu-throttled gpu1",
        "warn gpu-hot gpu1",
    ],
    "h100_software_thermal_slowdown": ["warn gpu-throttled gpu1"],
    "h100_software_power_cap": [],
    "h100_nearly_hot": [],
    "h100_no_margin_left": ["warn gpu-hot gpu1"],
    "h100_power_limit_low": ["warn gpus-differ node", "warn gpu-power-capped gpu1"],
    "h100_application_clock_low": ["warn gpu-clocks-low gpu1"],
    "h100_clock_low_at_work": ["warn gpu-clocks-low gpu1"],
    "h100_clock_low_under_power_cap": [],
    "h100_persistence_off": ["warn persistence-off gpu1"],
    "h100_memory_without_process": ["warn gpu-memory-in-use gpu1"],
    "h100_memory_of_a_process": [],
    "h100_memory_just_freed": [],
    "h100_vbios_differs": ["warn gpus-differ node"],
    "mixed_models_differ": [],
    "h100_gone_since_boot": ["drain gpu-missing node"],
    "h100_lost_with_its_name": ["drain gpu-lost gpu1"],
    "h100_every_field_fails": ["drain gpu-lost gpu1", "unknown unread gpu1"],
    "driver_older_than_expected": [],
    "gpu_process_left": ["warn gpu-process-left gpu1"],
    "gpu_process_of_a_job": [],
    "h100_inforom_corrupted": ["warn inforom-corrupted gpu1"],
    "h100_ecc_storm_not_reset_since": ["drain-when-idle ecc-storm gpu1"],
    "h100_sram_limit_exceeded": ["warn ecc-uncorrected-lifetime gpu1"],
    "v100_healthy": [],
    "v100_retired_pages_pending": ["drain-when-idle retired-pages-pending gpu1"],
    "geforce_healthy": [],
    "driver_library_mismatch": ["drain driver-library-mismatch node"],
    "driver_not_loaded": ["drain driver-not-loaded node"],
    "nvml_unknown_error_in_container": ["unknown nvml-unavailable node"],
    "nvml_hung": ["unknown probe-hung nvml"],
    "nvml_hung_and_tasks_stuck": [
        "drain-when-idle driver-hung node",
        "warn hung-task cache_mgr_event",
        "unknown probe-hung nvml",
        "ok xid 0000:61:00.0",
    ],
    "kernel_log_unread": ["unknown unread kernel_log"],
    "ib_port_polling": ["drain link-down mlx5_0:1"],
    "ib_port_waits_for_subnet_manager": ["warn link-down mlx5_0:1"],
    "ib_port_slow": ["drain-when-idle link-slow mlx5_0:1"],
    "ib_adapter_gone": ["drain link-down mlx5_0:1"],
    "ethernet_without_carrier": ["drain link-down eth0"],
    "disk_read_only": ["drain disk-read-only /tmp"],
    "disk_full": ["drain-when-idle disk-full /tmp"],
    "disk_full_with_room_left": ["warn disk-full /tmp"],
    "disk_full_without_room": ["drain-when-idle disk-full /tmp"],
    "disk_full_of_a_file_server": ["warn disk-full /tmp"],
    "disk_stale_of_a_file_server": ["warn disk-stale /scratch"],
    "disk_read_only_of_a_file_server": ["warn disk-read-only /tmp"],
    "disk_inodes_nearly_used_up": ["warn disk-full /tmp"],
    "disk_not_mounted": ["drain disk-missing /scratch"],
    "disk_missing": ["drain disk-missing /scratch"],
    "disk_hung": ["unknown probe-hung disk:/scratch"],
    "memory_uncorrected": ["drain-when-idle memory-uncorrected node"],
    "memory_missing": ["drain-when-idle memory-missing node"],
    "disk_stale": ["drain-when-idle disk-stale /scratch"],
    "shm_full": ["warn shm-full /dev/shm"],
    "shm_in_use": [],
    "nvme_read_only": ["drain-when-idle drive-failing nvme0"],
    "nvme_unreliable": ["drain-when-idle drive-failing nvme0"],
    "nvme_hot": ["warn drive-failing nvme0"],
    "nvme_worn": ["warn drive-worn nvme0"],
    "nvme_nearly_worn": [],
    "nvme_media_errors_since_boot": ["warn drive-media-errors nvme0"],
    "nvme_old_media_errors": [],
    "sata_smart_failed": ["drain-when-idle drive-failing sda"],
    "sata_healthy": [],
    "drive_unread": ["unknown unread nvme0"],
    "drive_virtual": [],
    "raid_mirror_degraded": ["warn raid-degraded md0"],
    "raid_stripes_broken": ["drain-when-idle raid-degraded md1"],
    "raid_not_started": ["warn raid-degraded md1"],
    "raid_healthy": [],
    "memory_small_for_its_gpus": [
        "drain-when-idle memory-missing node",
        "warn memory-small node",
    ],
    "memory_just_enough_for_its_gpus": ["drain-when-idle memory-missing node"],
    "memory_corrected_storm": ["warn memory-corrected-rate node"],
    "memory_corrected_long_ago": [],
    "memory_poisoned": ["warn memory-poisoned node"],
    "machine_check": ["warn machine-check node"],
    "memory_counts_unread": ["unknown unread memory"],
    "process_stuck_in_driver": ["drain-when-idle process-stuck pid4711"],
    "process_waits_for_a_file_server": ["warn process-stuck pid4711"],
    "process_waits_shortly": [],
    "process_not_reaped": ["warn process-stuck pid812"],
    "threads_near_their_limit": ["warn node-limit threads"],
    "threads_plenty": [],
    "load_of_nobody": ["warn foreign-load node"],
    "load_of_a_job": [],
    "load_just_after_a_job": [],
    "load_without_slurmd": [],
    "traffic_of_nobody": ["warn foreign-traffic node"],
    "traffic_of_the_last_job": [],
    "clock_unsynchronised": ["warn clock-unsynchronised node"],
    "clock_off": ["warn clock-offset node"],
    "clock_steered": [],
    "service_failed": ["drain-when-idle service-down nvidia-fabricmanager"],
    "service_restarts_for_ever": ["drain-when-idle service-down nvidia-fabricmanager"],
    "service_not_installed": ["drain-when-idle service-down nvidia-fabricmanager"],
    "service_starting": ["warn service-down nvidia-fabricmanager"],
    "service_active": [],
    "systemctl_hung": ["unknown probe-hung services"],
    "systemctl_missing": ["unknown unread services"],
    "module_missing": ["drain-when-idle module-missing nvidia-peermem"],
    "module_loaded": [],
    "library_empty": ["drain-when-idle library-broken libcuda.so.1"],
    "library_needs_another": ["warn library-broken libcuda.so.1"],
    "libraries_load": [],
    "psu_without_its_feed": ["warn power-supply PSU1_Supply"],
    "psu_redundancy_lost": ["warn power-supply PS Redundancy"],
    "psu_alarm_of_hwmon": ["warn power-supply dps650ab-hwmon4"],
    "psu_slots_empty": [],
    "fan_stopped": ["warn fan FAN3"],
    "fan_not_connected": [],
    "ups_on_battery": ["warn ups-on-battery rack7@nut"],
    "ups_low": ["drain ups-low rack7@nut"],
    "ups_shuts_down": ["drain ups-low rack7@nut"],
    "ups_charges_again": [],
    "ups_battery_old": ["warn ups-fault rack7@nut"],
    "ups_unreachable": ["unknown unread ups:rack7@nut"],
    "dcgm_persistence_mode_failed": [
        "drain-when-idle dcgm-diag node",
        "warn dcgm-diag node",
    ],
    "dcgm_calls_it_configuration": ["warn dcgm-diag dcgm-gpu0"],
    "dcgm_memory_incident": ["drain-when-idle dcgm-health dcgm-gpu3"],
    "dcgm_pcie_warning": ["warn dcgm-health dcgm-gpu1"],
    "dcgm_form_unknown": ["unknown unread dcgm:diag"],
    "dcgm_hung": ["unknown probe-hung dcgm:health"],
    "ib_port_flapping": ["drain-when-idle link-flapping mlx5_0:1"],
    "ib_port_flapped_long_ago": [],
    "ib_port_integrity": ["drain-when-idle link-integrity mlx5_0:1"],
    "ib_port_symbol_errors": ["warn link-errors mlx5_0:1"],
    "ib_port_symbol_errors_of_a_lifetime": [],
    "ib_port_without_counters": [],
    "counts_of_links_unread": [
        "unknown unread load",
        "unknown unread 0000:41:00.0",
        "unknown unread mlx5_0:1",
    ],
    "ib_unused_ports": [],
    "module_without_light": ["warn optics-alarm eth0"],
    "module_warm": [],
    "pcie_gpu_gone": ["drain pcie-gone gpu0"],
    "pcie_gpu_idle": [],
    "pcie_adapter_narrower_than_its_twin": ["warn pcie-narrow 0000:5c:00.0"],
    "pcie_adapters_in_small_slots": [],
    "pcie_fatal_error": ["drain-when-idle pcie-error-rate gpu0"],
    "pcie_corrected_errors": [],
    "kernel_memory_uncorrected": [
        "drain-when-idle host-memory-error MC0",
        "drain-when-idle host-memory-error page",
    ],
    "kernel_memory_corrected": [
        "ok host-memory-error MC1",
        "ok host-memory-error CPU 1 bank 11",
    ],
    "kernel_disk_given_up": ["drain-when-idle drive-missing nvme2"],
    "kernel_disk_timeout": ["warn disk-error nvme1"],
    "kernel_file_system_read_only": ["drain file-system-error sda1"],
    "kernel_file_system_mounted": [],
    "kernel_nfs_silent": ["warn nfs-silent filer1"],
    "kernel_nfs_back": ["ok nfs-silent filer1"],
    "kernel_pcie_fatal": ["drain-when-idle pcie-error gpu0"],
    "kernel_pcie_corrected": ["ok pcie-error gpu0"],
    "kernel_gpu_not_started": ["warn gpu-init-failed gpu0"],
    "kernel_xid_settled_by_recovery": [
        "drain xid gpu1",
        "ok xid gpu0",
        "ok xid gpu0",
        "ok xid gpu1",
    ],
    "xid_79_and_gpu_gone": ["drain gpu-missing node", "drain xid 0000:2b:00.0"],
    "xid_13_storm": ["ok xid gpu0"],
}


def told(name: str, settings: NodeSettings) -> list[str]:
    facts = from_json((RECORDED / f"{name}.json").read_bytes())
    return [f"{one.severity.value} {one.check} {one.subject}" for one in judge(facts, settings)]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_facts_get_their_findings(path: Path) -> None:
    """Each recording, of a fault or of none, is judged as its row says."""
    assert told(path.stem, SETTINGS) == FINDINGS[path.stem]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_facts_survive_a_round_trip(path: Path) -> None:
    """What `facts --json` writes is what `check --facts` reads."""
    facts = from_json(path.read_bytes())

    assert from_json(to_json(facts)) == facts


def test_facts_with_an_unknown_field_are_refused() -> None:
    """A recording of another version must not be judged as if a field were not there."""
    text = b'{"node": "n1", "gpus": [{"index": 0, "remap_broken": true}]}'

    with pytest.raises(msgspec.ValidationError, match="remap_broken"):
        from_json(text)


def test_every_rule_is_named_after_its_check() -> None:
    """A rule and a row: the function's name, with dashes, stands in the table of checks."""
    names = {rule.__name__.replace("_", "-") for rule in RULES} - {"kernel-log"}

    assert sorted(names | KERNEL_CHECKS.keys() | {"leftover-process"}) == sorted(CHECKS)


@pytest.mark.parametrize(
    "name",
    ["geforce_healthy", "driver_not_loaded", "ethernet_without_carrier", "h100_gpu_missing"],
)
def test_what_is_not_expected_is_not_missed(name: str) -> None:
    """Out of the box a node is judged by its faults, not by a guess at what it should have."""
    assert not [one for one in told(name, NodeSettings()) if not one.startswith("ok ")]


def test_a_check_can_be_switched_off_or_softened() -> None:
    """A site decides about a check by its id; the rest stays."""
    off = msgspec.structs.replace(SETTINGS, checks={"row-remap-failed": "off"})
    softer = msgspec.structs.replace(SETTINGS, checks={"row-remap-failed": "warn"})

    assert told("h100_row_remap_failed", off) == []
    assert told("h100_row_remap_failed", softer) == ["warn row-remap-failed gpu1"]


def test_severity_is_ordered_as_it_is_written() -> None:
    """ok < unknown < warn < drain-when-idle < drain."""
    names = [severity.value for severity in sorted(Severity)]

    assert names == ["ok", "unknown", "warn", "drain-when-idle", "drain"]
    assert worst([]) is Severity.OK
