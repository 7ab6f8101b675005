nextflow.enable.dsl = 2

// storeDir: Nextflow skips a task if its outputs are there already.
process SUM {
    storeDir "${launchDir}/results"

    input:
    path part

    output:
    path "${part.baseName}.sum"

    script:
    """
    sleep 5 # a real task takes longer
    awk '{s += \$1} END {print s}' ${part} > ${part.baseName}.sum
    """
}

workflow {
    SUM(Channel.fromPath("${launchDir}/data/*.txt"))
}
