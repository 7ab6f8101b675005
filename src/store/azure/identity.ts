// Signs in to Microsoft Entra: a service principal, workload identity, managed identity, `az login`. It is a separate file
// of the program (build.mjs), loaded by runs without a key, SAS or connection string.
import { DefaultAzureCredential, type TokenCredential } from '@azure/identity';

export function entraCredential(): TokenCredential {
  return new DefaultAzureCredential();
}
