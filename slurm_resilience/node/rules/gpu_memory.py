"""Rules over the memory of GPUs: ECC, row remapping, page retirement. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.of_gpu import finding, rates_since_reset
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def ecc_uncorrected(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Volatile only: the aggregate would drain again after every repair."""
    for gpu in facts.gpus or ():
        if gpu.ecc_uncorrected:
            errors = "error" if gpu.ecc_uncorrected == 1 else "errors"
            detail = f"{gpu.ecc_uncorrected} uncorrected memory {errors} since the last reset"
            yield finding(gpu, "ecc-uncorrected", Severity.DRAIN_WHEN_IDLE, detail)


def ecc_uncorrected_lifetime(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What the board remembers of errors that a reset has settled."""
    most = settings.thresholds.sram_uncorrected_lifetime
    for gpu in facts.gpus or ():
        sram, total = gpu.sram_uncorrected_aggregate or 0, gpu.ecc_uncorrected_aggregate or 0
        if gpu.sram_threshold_exceeded:
            detail = f"more SRAM errors ({sram}) than NVIDIA's own limit: one to replace"
        elif sram > most:
            detail = f"{sram} uncorrected SRAM errors over its lifetime: one to replace"
        elif (total or sram) and not gpu.ecc_uncorrected:
            detail = f"{max(total, sram)} uncorrected memory errors over its lifetime"
        else:
            continue
        yield finding(gpu, "ecc-uncorrected-lifetime", Severity.WARN, detail)


def ecc_corrected(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """So many since the last reset that the board is worth a look."""
    for gpu in facts.gpus or ():
        if (gpu.ecc_corrected or 0) > settings.thresholds.ecc_corrected:
            detail = f"{gpu.ecc_corrected} corrected memory errors since the last reset"
            yield finding(gpu, "ecc-corrected", Severity.WARN, detail)


def ecc_storm(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """
    A total says nothing of how fast it grows; a storm slows the GPU, and the driver with it.

    A GPU that rests has no errors, so a storm stands until the count begins anew: until the reset.
    """
    want = settings.thresholds
    for gpu in facts.gpus or ():
        rate, peak = rates_since_reset(facts, gpu, "ecc_corrected", want.rate_window_s)
        if peak >= want.ecc_storm_per_s:
            detail = f"{peak:.0f} corrected memory errors/s since its last reset"
            yield finding(gpu, "ecc-storm", Severity.DRAIN_WHEN_IDLE, detail)
        elif rate >= want.ecc_corrected_per_s:
            yield finding(
                gpu, "ecc-storm", Severity.WARN, f"{rate:.0f} corrected memory errors/s"
            )


def ecc_mode(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Only where it is expected: some sites do without on purpose."""
    for gpu in facts.gpus or ():
        wanted = settings.expect.ecc
        if wanted is not None and gpu.ecc_enabled not in {None, wanted}:
            state = "on" if gpu.ecc_enabled else "off"
            yield finding(gpu, "ecc-mode", Severity.DRAIN_WHEN_IDLE, f"ECC is {state}")


def row_remap_pending(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Mapped out by a reset, which has to wait for the job."""
    for gpu in facts.gpus or ():
        if gpu.remap_pending:
            yield finding(gpu, "row-remap-pending", Severity.DRAIN_WHEN_IDLE, "needs a reset")


def row_remap_failed(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """No reset repairs it."""
    for gpu in facts.gpus or ():
        if gpu.remap_failed:
            yield finding(gpu, "row-remap-failed", Severity.DRAIN, "needs replacing")


def row_remap_exhausted(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The next error finds no spare row: told before it becomes `row-remap-failed`."""
    for gpu in facts.gpus or ():
        if gpu.remap_failed:
            continue
        rows, banks = gpu.remapped_uncorrected or 0, gpu.remap_banks_exhausted or 0
        if rows > settings.thresholds.remapped_rows:
            detail = f"{rows} rows remapped: the GPU is worn out"
            yield finding(gpu, "row-remap-exhausted", Severity.DRAIN_WHEN_IDLE, detail)
        elif banks:
            noun = "bank" if banks == 1 else "banks"
            detail = f"{banks} {noun} of memory without a spare row"
            yield finding(gpu, "row-remap-exhausted", Severity.WARN, detail)


def retired_pages(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Boards before Ampere keep a table of so many pages, and no more."""
    want = settings.thresholds
    for gpu in facts.gpus or ():
        double = gpu.retired_double_bit or 0
        pages = (gpu.retired_single_bit or 0) + double
        if pages >= want.retired_pages:
            detail = f"{pages} retired pages: the table is full"
            yield finding(gpu, "retired-pages", Severity.DRAIN_WHEN_IDLE, detail)
        elif double > want.retired_double_bit:
            detail = f"{double} pages retired for double-bit errors"
            yield finding(gpu, "retired-pages", Severity.WARN, detail)


def retired_pages_pending(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Cards before Ampere retire pages instead of rows."""
    for gpu in facts.gpus or ():
        if gpu.retired_pending:
            detail = "needs a reset"
            yield finding(gpu, "retired-pages-pending", Severity.DRAIN_WHEN_IDLE, detail)


GPU_MEMORY_RULES: tuple[Rule, ...] = (
    ecc_uncorrected, ecc_uncorrected_lifetime, ecc_corrected, ecc_storm, ecc_mode,
    row_remap_pending, row_remap_failed, row_remap_exhausted,
    retired_pages, retired_pages_pending,
)  # fmt: skip
