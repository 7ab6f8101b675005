#!/usr/bin/env Rscript
# Bootstrap means of a sample: bootstrap.R ROUNDS. A checkpoint after each round of 1,000 means.
rounds <- as.integer(commandArgs(trailingOnly = TRUE)[1])

if (file.exists("state.rds")) {
  state <- readRDS("state.rds")
  # Without it, the rest of the run would draw other numbers.
  .Random.seed <- state$seed
  cat("resumes after round", length(state$means) / 1000, "\n")
} else {
  set.seed(1)
  state <- list(sample = rexp(200), means = numeric())
}

while (length(state$means) < rounds * 1000) {
  state$means <- c(state$means, replicate(1000, mean(sample(state$sample, replace = TRUE))))
  state$seed <- .Random.seed
  Sys.sleep(0.4) # a real computation takes longer
  saveRDS(state, "state.tmp")
  # A dying process renames nothing: state.rds is always whole.
  stopifnot(file.rename("state.tmp", "state.rds"))
}

write.csv(data.frame(mean = state$means), "means.csv", row.names = FALSE)
