--[[
Slurm's JobSubmitPlugins=lua reads this as job_submit.lua from the folder of slurm.conf.

A site with a job_submit.lua of its own puts the lines between the marks into it, and the call into
its slurm_job_submit.
--]]

-- ── begin ──
local LIBRARY = "/opt/slurm-resilience/share/slurm-resilience/job_submit/slurm_resilience.lua"
local is_loaded, resilience = pcall(dofile, LIBRARY)

local function with_resilience(job_desc, part_list)
    local is_done, why = is_loaded, resilience
    if is_loaded then
        is_done, why = pcall(function()
            -- resilience.ALIKE = { gpu = true } -- partitions whose nodes may be avoided: docs/job_submit.md
            resilience.submit(slurm, job_desc, part_list)
        end)
    end
    if not is_done then
        slurm.log_error("%s", "slurm-resilience: the job goes on without what is missing: " .. tostring(why))
    end
end
-- ── end ──

function slurm_job_submit(job_desc, part_list, submit_uid)
    with_resilience(job_desc, part_list)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
