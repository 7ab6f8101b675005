// Read this first. What the commands on an array share: each reads an array that is stored under a `<url>`. A command
// has a folder here, and its line in commands.ts.
import type { Command, CommandHelp, Line, Tools } from '../cli/command.ts';
import { envNameOf, type Option, type OptionGroup } from '../cli/options/spec.ts';
import type { ValuesOf } from '../cli/options/values.ts';
import type { ExitStatus } from '../model/exit-status.ts';
import {
  type ArrayAddress,
  ADDRESS_OPTIONS,
  findArray,
  OPENING_OPTIONS,
  openHeard,
  readAddress,
  type StoredArray,
} from './stored-array.ts';

interface Parts<Options extends OptionGroup, Request> {
  readonly name: Command['name'];
  readonly help: CommandHelp;
  readonly options: Options;
  /** It reads what may be encrypted: with the options of an identity. */
  readonly opens?: true;
  /** Reports contradictory options to `line.values.refuse`. */
  read(options: ValuesOf<Options>, line: Line, address: ArrayAddress | undefined): Request;
}

interface ArrayParts<Options extends OptionGroup, Request> extends Parts<Options, Request> {
  /** Resolves to 0 if the array is as asked (all done, complete, whole), 1 if not. */
  act(array: StoredArray, request: Request, tools: Tools): Promise<ExitStatus>;
}

interface AddressParts<Options extends OptionGroup, Request> extends Parts<Options, Request> {
  act(address: ArrayAddress, request: Request, tools: Tools): Promise<ExitStatus>;
}

interface Addressed<Request> {
  readonly address: ArrayAddress;
  readonly request: Request;
}

/** A command that opens the store itself. */
export function onAddress<Options extends OptionGroup, Request>({
  help,
  options,
  opens,
  read,
  act,
  ...parts
}: AddressParts<Options, Request>): Command<Addressed<Request>> {
  const ofAddress = opens === true ? [...ADDRESS_OPTIONS, ...OPENING_OPTIONS] : ADDRESS_OPTIONS;
  return {
    ...parts,
    help: {
      ...help,
      notes: [...(help.notes ?? []), variablesNote(ofAddress)],
      statuses: {
        64: 'an option or the <url> is wrong',
        66: 'nothing is stored there',
        69: 'the store cannot be used',
        ...help.statuses,
      },
    },
    options: [...Object.values(options), ...ofAddress],
    wordsBehind: true,
    // The variables of all other options are for the task of a run, not for a whole array.
    variables: ofAddress,
    read: (line) => {
      const address = readAddress(line);
      const request = read(line.values.all(options), line, address);
      return address === undefined ? undefined : { address: { ...address, opens: opens === true }, request };
    },
    act: ({ address, request }, tools) => act(address, request, tools),
  };
}

/** A command on an existing array. */
export function onArray<Options extends OptionGroup, Request>({
  act,
  ...parts
}: ArrayParts<Options, Request>): Command<Addressed<Request>> {
  return onAddress({
    ...parts,
    act: async (address, request, tools) => {
      const { store, close } = await openHeard(address, tools);
      try {
        return await act(await findArray(store, address, tools.signal), request, tools);
      } finally {
        await close();
      }
    },
  });
}

export function variablesNote([first]: readonly Option[]): string {
  return `Variables:
  CAPTURE_TO, with CAPTURE_NAMESPACE behind it, stands for the <url>, if there is none, and without
  it ./capture-store, as for a run.
  ${envNameOf(first?.name ?? '')}, CAPTURE_PATH_STYLE=1 and CAPTURE_LOG_LEVEL stand for these options.
  Credentials are found as for a run.
`;
}
