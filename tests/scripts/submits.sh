#!/bin/bash
# finds: first-node-only fixed-port no-requeue no-signal shared-output truncated-output truncated-output
OUT=logs
sbatch --nodes 2 --time=24:00:00 -o all.log --wrap "torchrun --master_port 6000 train.py"
sbatch --requeue --signal=B:USR2@120 <<EOF
#!/bin/bash
#SBATCH --nodes=1 --time=24:00:00 --output=$OUT/%j.out --comment=slurm-resilience
exec slurm-resilience run -- torchrun train.py
EOF
sbatch other.sbatch
cat > quiet.sbatch <<'EOF'
torchrun train.py
EOF
